"""Workers: hosts side by side, each in a thread, or one after another on virtual time."""
