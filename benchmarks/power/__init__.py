"""Power: how many GPUs a rack's budget takes, by plan alone and with the controller."""
