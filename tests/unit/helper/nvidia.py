"""A host with an A100-like board: SR-IOV, vendor vGPU files, MIG, the programs around them.

Refusals are those of docs and captures gathered in the hardware notes (VF files: paragraph 5).
"""

from __future__ import annotations

import errno
import json
from collections.abc import Callable, Sequence
from typing import Any

from tests.unit.helper.host import GPU, PCI, FakeHost, refusal
from tests.unit.helper.nvml import FakeGpu, FakeNvml, Gi

VFS = tuple(f"0000:41:00.{number}" for number in (4, 5, 6, 7))
VF = VFS[0]
TYPE, OTHER_TYPE, MIG_TYPE = 1147, 1145, 474
MIG_PROFILE = 19  # of MIG_TYPE
SRIOV_MANAGE = "/usr/lib/nvidia/sriov-manage"


class NvidiaHost(FakeHost):
    """``open_vfs``: a guest has them open. ``ending``: plugins that take so many writes to end."""

    def __init__(self, *, vfs: bool = True, mig: bool = False) -> None:
        super().__init__()
        self.gpu = FakeGpu(GPU, mig=(int(mig), int(mig)))
        self.library = self.fake = FakeNvml(self.gpu)
        self.types: dict[str, int] = {}
        self.placements: dict[str, int] = {}
        self.homes: dict[str, Gi] = {}
        self.open_vfs: set[str] = set()
        self.ending: dict[str, int] = {}
        self.choose: Callable[[list[Gi]], Gi] = lambda found: found[0]
        self.unbind_lock = 0  # how many tries of sriov-manage fail
        self.path = self.add_function(GPU, kind="030200", driver="nvidia", group=12)
        self.files[f"{self.path}/sriov_totalvfs"] = f"{len(VFS)}\n"
        self.files[f"{self.path}/sriov_numvfs"] = "0\n"
        self.add_driver("vfio-pci")
        self.programs[SRIOV_MANAGE] = self._sriov_manage
        self.files[SRIOV_MANAGE] = ""
        self.programs["nvidia-smi"] = self._reset
        if vfs:
            self.vfs_on()

    # -- SR-IOV

    def vfs_on(self, count: int = len(VFS), driver: str | None = "nvidia") -> None:
        """Rebinds the driver: instances and mixed-size mode are gone (paragraph 4)."""
        self.gpu.instances.clear()
        self.gpu.mixed = 0 if self.gpu.mixed is not None else None
        for number, vf in enumerate(VFS[:count]):
            path = self.add_function(vf, driver=driver, group=80 + number)
            self.links[f"{path}/physfn"] = f"../{GPU}"
            self.links[f"{self.path}/virtfn{number}"] = f"../{vf}"
            self.files[f"{path}/reset"] = ""
            self.files[f"{path}/reset_method"] = "flr\n"
            if driver == "nvidia":
                self._vendor_files(vf, path)
        self.files[f"{self.path}/sriov_numvfs"] = f"{count}\n"

    def vfs_off(self) -> None:
        self.gpu.instances.clear()
        for number, vf in enumerate(VFS):
            if self.links.pop(f"{self.path}/virtfn{number}", None):
                self.drop_function(vf)
        self.files[f"{self.path}/sriov_numvfs"] = "0\n"
        self.types.clear()
        self.homes.clear()

    def sriov_by_kernel(self) -> None:
        """A driver with the kernel's own interface (paragraph 4)."""

        def write(text: str) -> None:
            now = int(self.read(f"{self.path}/sriov_numvfs"))
            if now and int(text) not in (0, now):
                raise refusal(errno.EBUSY)
            self.vfs_off()
            if int(text):
                autoprobe = self.read(f"{self.path}/sriov_drivers_autoprobe").strip() == "1"
                self.vfs_on(int(text), self.driver_of(GPU) if autoprobe else None)

        self.files[f"{self.path}/sriov_drivers_autoprobe"] = "1\n"
        self.hooks[f"{self.path}/sriov_numvfs"] = write

    def _sriov_manage(self, argv: Sequence[str]) -> tuple[int, str]:
        assert argv[2] == GPU
        assert not self.fake.open, "an NVML client of ours holds the GPU"
        if self.unbind_lock:
            self.unbind_lock -= 1
            return 0, "Cannot obtain unbindLock for 0000:41:00.0\n"
        if argv[1] == "-e":
            self.vfs_on()
        else:
            self.vfs_off()
        return 0, ""

    def _reset(self, argv: Sequence[str]) -> tuple[int, str]:
        assert list(argv) == ["nvidia-smi", "--gpu-reset", "-i", GPU]
        assert not self.fake.open, "an NVML client of ours holds the GPU"
        if self.gpu.mig:
            self.gpu.mig = (self.gpu.mig[1], self.gpu.mig[1])
        return 0, "GPU was successfully reset.\n"

    # -- the vendor's files of a VF

    def _vendor_files(self, vf: str, path: str) -> None:
        self.files |= {
            f"{path}/nvidia/creatable_vgpu_types": lambda: self._creatable_text(vf),
            f"{path}/nvidia/current_vgpu_type": lambda: f"{self.types.get(vf, 0)}\n",
            f"{path}/nvidia/gpu_instance_id": lambda: self._home(vf),
            f"{path}/nvidia/placement_id": lambda: self._placement(vf),
            f"{path}/nvidia/vgpu_params": "\n",
        }
        self.hooks |= {
            f"{path}/nvidia/current_vgpu_type": lambda text: self._set_type(vf, text),
            f"{path}/nvidia/placement_id": lambda text: self._place(vf, text),
            f"{path}/nvidia/vgpu_params": lambda text: self._params(vf, path, text),
        }

    def creatable(self, vf: str) -> list[int]:
        if vf in self.types:
            return []
        if self.gpu.mig and self.gpu.mig[0]:
            return [MIG_TYPE] if self._free_instances() else []
        return [OTHER_TYPE, TYPE]

    def _creatable_text(self, vf: str) -> str:
        lines = [f"{number:<5} : NVIDIA A100-{number}" for number in self.creatable(vf)]
        return "\n".join(["ID    : vGPU Name", *lines]) + "\n"

    def _free_instances(self) -> list[Gi]:
        fit = [gi for gi in self.gpu.instances.values() if gi.profile.id == MIG_PROFILE]
        return [gi for gi in sorted(fit, key=lambda gi: gi.id) if not gi.busy]

    def _set_type(self, vf: str, text: str) -> None:
        if text == "0":
            return self._clear(vf)
        if vf in self.types:
            raise refusal(errno.EPERM)
        if int(text) not in self.creatable(vf):
            raise refusal(errno.EIO)
        self.types[vf] = int(text)
        self.placements[vf] = 0
        if int(text) == MIG_TYPE:
            self.homes[vf] = self.choose(self._free_instances())
            self.homes[vf].busy = True
        return None

    def _clear(self, vf: str) -> None:
        if vf not in self.types or vf in self.open_vfs:
            raise refusal(errno.EPERM)
        if self.ending.get(vf):
            self.ending[vf] -= 1
            raise refusal(errno.EBUSY)
        del self.types[vf]
        if vf in self.homes:
            self.homes.pop(vf).busy = False

    def _home(self, vf: str) -> str:
        if vf not in self.types:
            raise refusal(errno.ENXIO)
        return f"{self.homes[vf].id if vf in self.homes else 0xFFFFFFFF}\n"

    def _placement(self, vf: str) -> str:
        if vf not in self.types:
            raise refusal(errno.ENXIO)
        return f"{self.placements[vf]}\n"

    def _place(self, vf: str, text: str) -> None:
        if int(text) % 8:
            raise refusal(errno.EINVAL)
        self.placements[vf] = int(text)

    def _params(self, vf: str, path: str, text: str) -> None:
        if vf in self.open_vfs:
            raise refusal(errno.EPERM)
        self.files[f"{path}/nvidia/vgpu_params"] = f"{text}\n"

    def program_holds(self, name: str = "nvidia-smi") -> None:
        """A program has /dev/nvidia0 open."""
        self.files[f"/proc/driver/nvidia/gpus/{GPU}/information"] = "Device Minor: \t 0\n"
        self.links["/proc/77/fd/5"] = "/dev/nvidia0"
        self.files["/proc/77/comm"] = f"{name}\n"

    def restart(self) -> None:
        """A reboot: VFs, instances and what was below /run are gone, MIG mode and claims stay."""
        self.vfs_off()
        self.reboot()
        for path in [path for path in self.files if path.startswith("/run/")]:
            del self.files[path]


class FabricManager:
    """fmpm over an HGX H100's partitions 13 (GPU 7), 14 (GPU 8) and 6 ({7, 8}, made up)."""

    def __init__(self, host: FakeHost) -> None:
        self.partitions = {13: [7], 14: [8], 6: [7, 8]}
        self.active: set[int] = set()
        self.starting = 0
        self.down = ""
        host.programs["fmpm"] = self

    def __call__(self, argv: Sequence[str]) -> tuple[int, str]:
        if self.down:
            return 247, self.down
        if self.starting:
            self.starting -= 1
            return 248, "Failed to get partition list. fmReturn: -8\n"
        if argv[1] == "-l":
            return 0, json.dumps({"version": 1, "partitionInfo": self._listed()})
        number = int(argv[2])
        return self._activate(number) if argv[1] == "-a" else self._deactivate(number)

    def _listed(self) -> list[dict[str, Any]]:
        return [
            {
                "partitionId": number,
                "isActive": int(number in self.active),
                "numGpus": len(gpus),
                "gpuInfo": [
                    {"physicalId": gpu, "uuid": "", "pciBusId": "00000000:00:00.0"} for gpu in gpus
                ],
            }
            for number, gpus in self.partitions.items()
        ]

    def _activate(self, number: int) -> tuple[int, str]:
        taken = {gpu for each in self.active for gpu in self.partitions[each]}
        if taken & set(self.partitions[number]):
            return 249, "Failed to activate partition. fmReturn: -7\n"
        self.active.add(number)
        return 0, ""

    def _deactivate(self, number: int) -> tuple[int, str]:
        if number not in self.active:
            return 252, "Failed to deactivate partition. fmReturn: -4\n"
        self.active.remove(number)
        return 0, ""


def instance(start: int = 2, *, make: bool = True) -> dict[str, Any]:
    """The instance of a MIG-backed vGPU, as a caller asks for it."""
    return {"gpu": GPU, "profile_id": MIG_PROFILE, "start": start, "size": 1, "make": make}


def vf_file(name: str, vf: str = VF) -> str:
    return f"{PCI}/devices/{vf}/nvidia/{name}"
