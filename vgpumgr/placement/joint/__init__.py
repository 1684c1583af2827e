"""The VMs of an order decided together: a solver says who goes where, the rules have the last word.

``problem.py`` puts hosts and VMs into numbers, ``cpsat.py`` solves it (extra ``solver``, in a
process of the caller's choice), ``seating.py`` turns the answer into places by the exact fit.
"""

from vgpumgr.placement.joint.improve import improved
from vgpumgr.placement.joint.problem import Answer, Problem, Solve, Solver

__all__ = ["Answer", "Problem", "Solve", "Solver", "improved"]
