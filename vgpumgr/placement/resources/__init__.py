"""What placement counts: demands, and working copies of hosts, GPUs and their slots."""
