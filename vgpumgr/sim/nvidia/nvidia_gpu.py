"""One physical NVIDIA GPU as its driver knows it: the seam between kernel, NVML and state."""

from __future__ import annotations

import errno
import uuid
from collections.abc import MutableMapping, Sequence
from hashlib import sha256

from vgpumgr import catalog
from vgpumgr.catalog import VgpuType
from vgpumgr.model.layout import Scheduler
from vgpumgr.model.sim_fleet import DEFAULT_VERSIONS
from vgpumgr.sim.boards.pci_board import PciBoard
from vgpumgr.sim.linux.file_tree import refusal
from vgpumgr.sim.nvidia.gpu_health import Ecc, Health
from vgpumgr.sim.nvidia.mig_grid import MemoryGrid, MigMode, SimGpuInstance
from vgpumgr.sim.nvidia.power_settings import PowerSettings, board_watts
from vgpumgr.sim.nvidia.rm_status import RmRefusal, RmStatus, log_lines
from vgpumgr.sim.nvidia.vgpus import Card, Vgpu, Vgpus


def identity(seed: int, address: str) -> tuple[str, str]:
    """UUID and serial number: the same at every boot, and of no other GPU of the fleet."""
    digest = sha256(f"{seed} {address}".encode()).digest()
    number = int.from_bytes(digest[16:20], "big")
    return f"GPU-{uuid.UUID(bytes=digest[:16])}", str(1_320_000_000_000 + number)


class Sharing:
    """Both are lost when the driver lets go of the GPU, and neither changes under vGPUs.

    ``capable``: the board and its driver have mixed-size mode.
    """

    def __init__(self, *, capable: bool) -> None:
        self.capable = capable
        self.lose()

    def lose(self) -> None:
        """Back to the driver's defaults."""
        self.mixed = False
        self.policy = Scheduler.BEST_EFFORT
        self.timing: tuple[int, ...] = ()

    def set_mixed(self, wanted: bool, *, idle: bool) -> None:
        """NOT_SUPPORTED without the mode or under fixed share; IN_USE with vGPUs or clients."""
        if not self.capable or (wanted and self.policy is Scheduler.FIXED_SHARE):
            raise RmRefusal(RmStatus.NOT_SUPPORTED)
        if not idle:
            raise RmRefusal(RmStatus.IN_USE)
        self.mixed = wanted

    def set_policy(self, wanted: Scheduler, timing: tuple[int, ...] = (), *, empty: bool) -> None:
        """NOT_SUPPORTED while any vGPU exists (nvml.h), and fixed share in mixed-size mode."""
        if not empty or (self.mixed and wanted is Scheduler.FIXED_SHARE):
            raise RmRefusal(RmStatus.NOT_SUPPORTED)
        self.policy, self.timing = wanted, timing


# vGPU 17: mixed-size mode, and vGPUs of one size but different series on one GPU.
_HETEROGENEOUS_SINCE = 550
# The places of MIG profiles are told while MIG is off, too (NVML's change log, v545 to v550).
_PLACES_TOLD_SINCE = 550


class NvidiaGpu:
    """The resource manager's state of one GPU since boot.

    ``seed`` makes the card and differs for every GPU of the fleet. ``durable`` keeps MIG and ECC
    mode. ``clients`` are programs that hold ``/dev/nvidia<n>``; ``vfs_on`` is set by who turns
    VFs on or off, and ``driver_rebound`` called afterwards. ``module_id``, ``fabric_state``
    (``not-supported``, ``not-started``, ``in-progress``, ``completed``) and ``nvlinks`` are the
    fabric's to set. ``fail_next`` holds pairs of an NVML function's C name and the name of the
    error (``IN_USE``) it fails with; each fails one call.
    """

    def __init__(
        self,
        board: PciBoard,
        address: str,
        *,
        seed: int,
        durable: MutableMapping[str, str],
        driver: str = DEFAULT_VERSIONS.driver,
    ) -> None:
        model = board.vgpus or catalog.board(board.key)
        assert model is not None
        self.board = board
        self.model = model
        self._types = tuple(each for each in self.model.types if each.id is not None)
        self.address = address
        self.uuid, self.serial = identity(seed, address)
        self.clients: set[str] = set()
        self.log: list[str] = []
        self.fail_next: list[tuple[str, str]] = []
        self.vfs_on = False
        self.module_id: int | None = None
        self.fabric_state = "not-supported"
        self.nvlinks = 0
        self.heterogeneous = _branch(driver) >= _HETEROGENEOUS_SINCE
        self.tells_places = _branch(driver) >= _PLACES_TOLD_SINCE
        self.health = Health(address)
        self.power = PowerSettings(board_watts(board.key))
        self.ecc = Ecc(model, durable=durable, key=f"nvidia:{address}:ecc")
        self.mig = MigMode(model, seed=seed, durable=durable, key=f"nvidia:{address}:mig")
        self.sharing = Sharing(capable=model.mixed_size and self.heterogeneous)
        self._vgpus = Vgpus(self._card, self.log)

    @property
    def lost(self) -> bool:
        """Whether it fell off the bus."""
        return self.health.lost

    @lost.setter
    def lost(self, lost: bool) -> None:
        self.health.lost = lost

    @property
    def any_series(self) -> bool:
        """Whether vGPUs of one size may differ in series; on a PF they always might."""
        return self.heterogeneous or self.model.host_mode == "mdev-on-pf"

    # What the kernel's side asks: VFs, mdevs, domains.

    @property
    def vgpus(self) -> tuple[Vgpu, ...]:
        """All vGPUs, oldest first."""
        return self._vgpus.all

    def types(self) -> tuple[VgpuType, ...]:
        """Every type whose number is known, whether it can be made now or not."""
        return self._types

    def type(self, type_id: int) -> VgpuType | None:
        """The type of that number, if the board has it."""
        return next((each for each in self._types if each.id == type_id), None)

    def creatable(self, carrier: str = "") -> tuple[VgpuType, ...]:
        """The types that may be made now; none on a carrier that has a vGPU."""
        return self._vgpus.creatable(carrier, self.types())

    def remaining(self, type_id: int) -> int:
        """How many more of the type there is room for (``available_instances`` of a PF)."""
        wanted = self.type(type_id)
        return 0 if wanted is None else self._vgpus.remaining(wanted)

    def create(self, carrier: str, type_id: int) -> None:
        """EPERM: the carrier has a vGPU; EIO: refused, and the log says why."""
        wanted = self.type(type_id)
        if wanted is None:
            self.log += log_lines(carrier, RmStatus.NOT_FOUND)
            raise refusal(errno.EIO)
        self._vgpus.create(carrier, wanted)

    def destroy(self, carrier: str) -> None:
        """EPERM while a VM has it, and where there is none."""
        self._vgpus.destroy(carrier)

    def vgpu(self, carrier: str) -> Vgpu | None:
        """The vGPU on that VF or mdev."""
        return self._vgpus.on(carrier)

    def place(self, carrier: str, placement_id: int) -> None:
        """EPERM without an idle vGPU, EINVAL: none of its ids, EBUSY: another vGPU lies there."""
        self._check_there()
        self._vgpus.place(carrier, placement_id)

    def start_vm(self, carriers: Sequence[str], vm: str, vm_id: str = "") -> None:
        """A domain with these vGPUs starts; OSError where a fixed placement is not possible.

        ``vm_id`` is its UUID; its name where none is given.
        """
        self._check_there()
        self._vgpus.start(carriers, vm, vm_id or vm)

    def stop_vm(self, carriers: Sequence[str]) -> None:
        """The domain is gone; its vGPUs stay."""
        self._vgpus.stop(carriers)

    def driver_rebound(self) -> None:
        """VFs went on or off: vGPUs, GPU instances, mixed-size mode, policy and limits are lost."""
        self._vgpus.clear()
        self.mig.clear()
        self.sharing.lose()
        self.power.lose()

    def reset(self) -> None:
        """Reset this GPU. EBUSY with clients, vGPUs or VFs; ENODEV when it fell off the bus."""
        self._check_there()
        if self.clients or self.vgpus or self.vfs_on:
            raise refusal(errno.EBUSY)
        self.mig.settle()
        self.ecc.settle()
        self.sharing.lose()
        self.power.lose()
        self.health.reset()

    def xid(self, number: int) -> None:
        """The driver reports an Xid: kernel log, NVML event, and what follows (79: lost)."""
        self.log.append(self.health.xid(number))

    # What NVML changes.

    def set_mig_mode(self, wanted: bool) -> RmStatus | None:
        """The activation status; None when the mode is set now (see ``MigMode.set``)."""
        before = self.mig.enabled
        status = self.mig.set(wanted, vfs_on=self.vfs_on, idle=self._idle())
        if self.mig.enabled != before:
            self.sharing.lose()
        return status

    def set_mixed_size(self, wanted: bool) -> None:
        """Not with MIG, vGPUs or clients. Without VFs it is taken, and lost when they come on."""
        if self.mig.enabled:
            raise RmRefusal(RmStatus.NOT_SUPPORTED)
        self.sharing.set_mixed(wanted, idle=self._idle())

    def set_scheduler(self, wanted: Scheduler, timing: tuple[int, ...] = ()) -> None:
        """Not with MIG or vGPUs."""
        if self.mig.enabled:
            raise RmRefusal(RmStatus.NOT_SUPPORTED)
        self.sharing.set_policy(wanted, timing, empty=not self.vgpus)

    def grid(self) -> MemoryGrid:
        """The GPU instances; NOT_SUPPORTED without MIG, or while it is off."""
        return self.mig.active_grid()

    def destroy_instance(self, instance_id: int) -> None:
        """IN_USE with compute instances or a vGPU in it."""
        grid = self.grid()
        if any(each.instance_id == instance_id for each in self.vgpus):
            raise RmRefusal(RmStatus.IN_USE)
        grid.destroy(instance_id)

    def guest_in(self, instance: SimGpuInstance) -> bool:
        """Whether a VM runs in it: its driver has made compute instances of its own there."""
        return any(each.vm and each.instance_id == instance.id for each in self.vgpus)

    def _check_there(self) -> None:
        if self.lost:
            raise refusal(errno.ENODEV)

    def _idle(self) -> bool:
        return not self.clients and not self.vgpus

    def _card(self, vgpus: Sequence[Vgpu]) -> Card:
        if self.lost:
            raise RmRefusal(RmStatus.GPU_IS_LOST)
        grid = self.mig.grid if self.mig.enabled else None
        return Card(
            board=self.model,
            any_series=self.any_series,
            mixed=self.sharing.mixed,
            instances=None if grid is None else grid.instances,
            vgpus=vgpus,
        )


def _branch(driver: str) -> int:
    major = driver.partition(".")[0]
    return int(major) if major.isdigit() else 0
