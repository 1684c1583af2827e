"""VMs as users ask for them: applied, started, stopped, shelved, deleted."""
