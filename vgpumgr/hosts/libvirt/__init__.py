"""libvirt of a real host: through our own bridge, under deadlines."""
