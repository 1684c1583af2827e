"""Tables of numbers: states of GPUs, hosts as rows, request types as columns."""
