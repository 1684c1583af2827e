"""What GPUs can hold, by state: numbers that the rules give, worked out once."""
