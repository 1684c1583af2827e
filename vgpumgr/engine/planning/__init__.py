"""Planning: requested VMs against ledger and observation, before anything is reserved."""
