"""The queue: VMs that wait for room, started, preempted and ended cycle by cycle."""
