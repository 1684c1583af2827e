"""Notifications: what `serve` tells is written to the trail, and mail is sent of records of it."""
