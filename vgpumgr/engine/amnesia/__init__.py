"""A ledger that went back in time (a backup put back, a standby promoted too early) is noticed by
what hosts know, frozen before it gives anything away twice, and told the hosts' truth.
"""
