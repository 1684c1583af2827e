"""From a client to a simulated host: over a socket, or in this process."""
