"""The client of the HTTP API, which the command line uses where it is given a server."""
