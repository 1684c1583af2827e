"""One SSH connection per host, its key pinned, as the user's configuration says."""
