"""The HTTP API: a route for every endpoint, a process of its own."""
