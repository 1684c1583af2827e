"""The helper on the other end: sent or installed, and called."""
