"""What a GPU's readings and Xids say of its health, and what is done about it; no I/O, no clock."""
