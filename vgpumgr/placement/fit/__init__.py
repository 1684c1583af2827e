"""The exact fit of a VM on one host: hard rules, policy keys and the search over GPUs."""
