"""A simulated NVIDIA GPU: the resource manager's state and refusals."""
