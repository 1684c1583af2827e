"""Plan, journal, execute, recover: the only place where a transaction and a host call meet."""
