"""Console connections to VMs: requested by users, handed out by `serve`."""
