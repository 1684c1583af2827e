"""The queue: VMs that start now, VMs that are preempted, and why others wait. ``now`` is given."""
