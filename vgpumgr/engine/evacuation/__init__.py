"""The VMs of a host that was lost and is proven off: made anew elsewhere, and what they left there
taken away when it returns."""
