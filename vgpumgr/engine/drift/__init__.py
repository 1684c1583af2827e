"""Ledger against hosts: every difference by name. Nothing is changed.

``survey`` probes and looks closer at our VMs; ``compare`` is pure: one small file per subject.
"""

from vgpumgr.engine.drift.compare import compare
from vgpumgr.engine.drift.seen import Defined, Seen
from vgpumgr.engine.drift.survey import Survey, look_around, report, survey
from vgpumgr.engine.drift.work import Work

__all__ = ["Defined", "Seen", "Survey", "Work", "compare", "look_around", "report", "survey"]
