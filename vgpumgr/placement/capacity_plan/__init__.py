"""Capacity plan: soft quotas and GPU prices from a linear program over classes of hosts.

Worked out off the hot path, from the fleet and a history of requests; needs highspy (extra ``lp``).
"""
