"""Webhooks: their secrets, their receivers, and how records of the trail come to them."""
