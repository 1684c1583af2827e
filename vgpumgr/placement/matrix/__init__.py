"""Every type of request against every host: what fits and how well, re-scored host by host."""
