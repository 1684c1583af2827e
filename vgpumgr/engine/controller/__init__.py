"""The controller, `serve`: reconcile cycles of hosts and fleet-wide tasks, again and again."""
