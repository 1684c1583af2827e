"""What still fits, how long that lasts, and why a request does not."""
