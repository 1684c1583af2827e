"""Batch placement: a solver decides the VMs of one order together, the exact fit confirms.

``neighbourhood.py`` puts hosts and VMs into numbers (``batch_problem.py``), ``cp_sat.py`` solves
them (extra ``solver``, in a process of the caller's choice), ``neighbourhood_search.py`` turns the
answer into places by the exact fit.
"""
