"""Layouts: declared partitioning of GPUs. One small file per part, the order in ``order``.

``plan`` compares a GPU with its goal and says what to change; ``look`` and ``act`` are for one
change on one host. What is made for a VM is no part of a layout.
"""

from vgpumgr.layout.beside import brought_back, standing
from vgpumgr.layout.carried import carried
from vgpumgr.layout.journal import from_plain, to_plain
from vgpumgr.layout.keeping import kept_parts, to_keep
from vgpumgr.layout.parts import act, apply_change, look, summary
from vgpumgr.layout.plan import differences, export, lacks, plan
from vgpumgr.layout.refusal import LayoutRefused
from vgpumgr.layout.selection import goals

__all__ = [
    "LayoutRefused",
    "act",
    "apply_change",
    "brought_back",
    "carried",
    "differences",
    "export",
    "from_plain",
    "goals",
    "kept_parts",
    "lacks",
    "look",
    "plan",
    "standing",
    "summary",
    "to_keep",
    "to_plain",
]
