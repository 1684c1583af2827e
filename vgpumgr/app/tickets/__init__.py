"""Doors to consoles: the VNC handshake on both sides, the password, the listener, the thread."""
