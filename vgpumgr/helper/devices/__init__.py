"""Functions and mdevs of any vendor between host and guests: made, fit to give, reset, in use."""
