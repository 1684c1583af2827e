"""Which simulated hosts run which lists of cases."""

from __future__ import annotations

from typing import Any

from tests.contract.simulated.fabric import FABRIC
from tests.contract.simulated.host import Run
from tests.contract.simulated.mdevs import MDEV
from tests.contract.simulated.mig import MIG
from tests.contract.simulated.mixed_size import MIXED
from tests.contract.simulated.vfs import VFS
from tests.contract.simulated.vgpus import VGPU
from tests.contract.simulated.whole import WHOLE

RUNS: tuple[Run[Any], ...] = (*MDEV, *WHOLE, *VGPU, *VFS, *MIG, *MIXED, *FABRIC)
