"""Ledger against hosts: every difference by name. Nothing is changed.

``survey`` probes and looks closer at our VMs; ``compare`` is pure: one small file per subject.
"""

from vgpumgr.engine.drift.compare import compare
from vgpumgr.engine.drift.seen import Defined, Seen
from vgpumgr.engine.drift.survey import survey
from vgpumgr.engine.drift.work import Work

__all__ = ["Defined", "Seen", "Work", "compare", "survey"]
