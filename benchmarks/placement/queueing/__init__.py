"""Waiting time on replay with departures: the product's queue against FIFO and EASY backfill."""
