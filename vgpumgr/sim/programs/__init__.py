"""The programs of a simulated host, as far as the helper runs them."""

from vgpumgr.sim.programs.table import run

__all__ = ["run"]
