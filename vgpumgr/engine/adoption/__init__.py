"""Foreign VMs and layouts brought under management as they are."""
