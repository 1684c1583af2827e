"""Hard constraints, each in one place: None, or a Reason with its numbers."""
