"""A simulated machine: its kernel booted from its hardware, its programs, its durable state."""
