"""What the vendors' drivers and daemons add to a simulated kernel."""
