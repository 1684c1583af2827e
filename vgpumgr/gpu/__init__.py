"""One small file per *framework*, a way of giving a VM a GPU.

Every framework has one life cycle: ``offers`` says what a GPU can make, ``realise`` makes it on
the host, ``look`` reads it back, ``describe`` gives the hostdev, ``release`` takes it back and
``holds`` says whether anything is left of it. They choose helper verbs; the mechanics live in the
helper.
"""

from vgpumgr.gpu.budget import slots, with_budget
from vgpumgr.gpu.framework import GpuFramework, companions, framework, offers

__all__ = ["GpuFramework", "companions", "framework", "offers", "slots", "with_budget"]
