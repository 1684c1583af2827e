"""The VMs of a host that was lost and is proven off: recreated elsewhere, and what they left there
taken away when it returns."""
