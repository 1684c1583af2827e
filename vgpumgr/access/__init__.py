"""Who may do what: permissions, roles, and the decision. No I/O, no clock."""
