"""A host in memory under the helper: a tree of files, and a kernel that behaves.

Every change is noted in ``log``; ``cut_before`` pulls the plug before a change.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from vgpumgr.helper.dispatch import handle
from vgpumgr.helper.system import System

FLEET = "fleet-1"
UUID = "4b20d080-1b54-4048-85b3-a6a62d165c01"
GPU = "0000:41:00.0"
AUDIO = "0000:41:00.1"
CLAIM = {"allocation": "alloc-1", "generation": 1, "vm": "desk-01"}
MDEVS = "/sys/bus/mdev/devices"
PCI = "/sys/bus/pci"


# Exit status and output of a program, by its argv.
Program = Callable[[Sequence[str]], tuple[int, str]]


class PowerCut(BaseException):
    """The host died here."""


def refusal(number: int, path: str = "") -> OSError:
    return OSError(number, os.strerror(number), path)


class FakeHost(System):
    """Files are text or functions that give it; ``hooks`` are the kernel's ``store`` functions."""

    def __init__(self) -> None:
        super().__init__()
        self.files: dict[str, str | Callable[[], str]] = {}
        self.links: dict[str, str] = {}
        self.stamps: dict[str, tuple[int, ...]] = {}
        self.hooks: dict[str, Callable[[str], None]] = {}
        self.log: list[tuple[str, str]] = []
        self.refuse: dict[str, int] = {}  # writes, by path ending
        self.unreadable: dict[str, int] = {}  # reads, by path beginning
        self.open_groups: set[int] = set()
        self.programs: dict[str, tuple[int, str] | Program] = {}
        self.waited = 0.0
        self.is_root = True
        self.cut_before: str | None = None
        self.library: Any = None
        self.images: dict[str, bytes] = {}
        self.locks = 0
        self.on_wait: Callable[[], None] = lambda: None
        self.driver_hangs = 0  # errno of work that waits for NVIDIA's driver
        self.next_group = 100
        self.records: list[str] | OSError = []

    # -- the seam

    def read(self, path: str) -> str:
        self._readable(path)
        found = self.files.get(self._resolve(path))
        if found is None:
            raise refusal(errno.ENOENT, path)
        return found if isinstance(found, str) else found()

    def write(self, path: str, text: str) -> None:
        self._note("write", path)
        real = self._resolve(path)
        for ending, number in self.refuse.items():
            if path.endswith(ending):
                raise refusal(number, path)
        if real not in self.files and real not in self.hooks:
            raise refusal(errno.ENOENT, path)
        self.hooks.get(real, lambda given: self.files.update({real: given}))(text)

    def list(self, path: str) -> Sequence[str]:
        self._readable(path)
        real = self._resolve(path)
        names = {rest.split("/")[0] for rest in self._below(real)}
        if not names and f"{real}/." not in self.files:
            raise refusal(errno.ENOENT, path)
        return sorted(names - {"."})

    def exists(self, path: str) -> bool:
        self._readable(path)
        real = self._resolve(path)
        return real in self.files or real in self.hooks or any(True for _ in self._below(real))

    def kernel_log(self) -> Sequence[str]:
        self._readable("/dev/kmsg")
        if isinstance(self.records, OSError):
            raise self.records
        return self.records

    def stamp(self, path: str) -> tuple[int, ...] | None:
        self._readable(path)
        return self.stamps.get(path, (1, 1, 1, 1)) if self.exists(path) else None

    def link(self, path: str) -> str | None:
        self._readable(path)
        real = posixpath.join(self._resolve(posixpath.dirname(path)), posixpath.basename(path))
        return self.links.get(real)

    def real(self, path: str) -> str:
        return self._resolve(path)

    def store(self, path: str, text: str) -> None:
        self._note("store", path)
        for ending, number in self.refuse.items():
            if path.endswith(ending):
                raise refusal(number, path)
        self.files[path] = text

    def remove(self, path: str) -> None:
        self._note("remove", path)
        if path in self.files:
            del self.files[path]
        elif any(rest != "." for rest in self._below(path)):
            raise refusal(errno.ENOTEMPTY, path)

    def read_bytes(self, path: str, limit: int, inside: str) -> tuple[bytes, int]:
        if not path.startswith(f"{inside}/"):
            raise refusal(errno.EXDEV, path)
        if path not in self.images:
            raise refusal(errno.ENOENT, path)
        return self.images[path][:limit], len(self.images[path])

    def pieces(self, path: str, inside: str) -> Iterator[bytes]:
        whole, size = self.read_bytes(path, 1 << 62, inside)
        for start in range(0, size, 5):
            yield whole[start : start + 5]

    def busy(self, path: str) -> bool:
        self._readable(path)
        return int(posixpath.basename(path)) in self.open_groups

    @contextlib.contextmanager
    def lock(self, path: str) -> Iterator[None]:
        if self.locks:
            raise refusal(errno.EAGAIN, path)
        self.locks += 1
        try:
            yield
        finally:
            self.locks -= 1

    def run(self, argv: Sequence[str], timeout: float) -> tuple[int, str]:
        self._note("run", " ".join(argv))
        if argv[0] == "modprobe" and self.programs.get("modprobe") == (0, ""):
            self.add_driver(argv[1])
        key = f"{argv[0]} {argv[1]}" if f"{argv[0]} {argv[1]}" in self.programs else argv[0]
        if key not in self.programs:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", argv[0])
        found = self.programs[key]
        return found if isinstance(found, tuple) else found(argv)

    def detached(self, work: Callable[[], Any], seconds: float, alone: str) -> Any:
        self._note("detached", alone)
        if self.driver_hangs:
            raise refusal(self.driver_hangs)
        return json.loads(json.dumps(work()))

    def nvml(self) -> Any:
        return self.library

    def root(self) -> bool:
        return self.is_root

    def now(self) -> float:
        return self.waited

    def wait(self, seconds: float) -> None:
        self.waited += seconds
        self.on_wait()

    # -- the kernel

    def add_parent(self, name: str, path: str, types: Mapping[str, int], budget: int) -> None:
        """An mdev parent whose types share one budget of memory."""
        self.links[f"/sys/class/mdev_bus/{name}"] = path
        self.files.setdefault(f"{MDEVS}/.", "")
        for kind, size in types.items():
            folder = f"{path}/mdev_supported_types/{kind}"
            self.files[f"{folder}/name"] = f"name of {kind}\n"
            self.files[f"{folder}/device_api"] = "vfio-pci\n"
            self.files[f"{folder}/devices/."] = ""
            self.files[f"{folder}/available_instances"] = lambda size=size: (
                f"{(budget - self._used(path, types)) // size}\n"
            )
            self.hooks[f"{folder}/create"] = lambda uuid, kind=kind, size=size: self._create(
                path, types, budget, kind, size, uuid
            )

    def add_function(
        self, address: str, kind: str = "030200", driver: str | None = None, group: int | None = 12
    ) -> str:
        """A PCI function; its own path is the answer."""
        path = f"/sys/devices/pci0000:40/{address}"
        self.links[f"{PCI}/devices/{address}"] = path
        for name, text in {
            "class": f"0x{kind}",
            "vendor": "0x10de",
            "device": "0x1eb8",
            "subsystem_vendor": "0x10de",
            "subsystem_device": "0x12a2",
            "numa_node": "-1",
            "driver_override": "(null)",
        }.items():
            self.files[f"{path}/{name}"] = f"{text}\n"
        self.hooks[f"{path}/driver_override"] = lambda text: self.files.update(
            {f"{path}/driver_override": f"{text.strip() or '(null)'}\n"}
        )
        self.hooks[f"{PCI}/drivers_probe"] = self._probe
        if group is not None:
            self.links[f"{path}/iommu_group"] = f"/sys/kernel/iommu_groups/{group}"
            self.links[f"/sys/kernel/iommu_groups/{group}/devices/{address}"] = path
        if driver:
            self.add_driver(driver)
            self.links[f"{path}/driver"] = f"{PCI}/drivers/{driver}"
            self.files[f"{path}/native"] = driver
        return path

    def add_pool(self, path: str, kind: str = "dir") -> None:
        """A storage pool that libvirt knows."""
        name = path.strip("/").replace("/", "-") or "all"
        self.files[f"/etc/libvirt/storage/{name}.xml"] = (
            f"<!-- made by libvirt -->\n<pool type='{kind}'><name>{name}</name>"
            f"<target><path>{path}</path></target></pool>\n"
        )

    def add_driver(self, name: str) -> None:
        self.files[f"{PCI}/drivers/{name}/."] = ""
        self.hooks[f"{PCI}/drivers/{name}/unbind"] = self._unbind

    def drop_function(self, address: str) -> None:
        """The function is no longer on the bus."""
        path = self.links.pop(f"{PCI}/devices/{address}")
        for known in (self.files, self.links, self.hooks):
            for name in [name for name in known if name.startswith(f"{path}/")]:
                del known[name]

    def driver_of(self, address: str) -> str | None:
        link = self.link(f"{PCI}/devices/{address}/driver")
        return link and posixpath.basename(link)

    def claims(self) -> list[str]:
        folder = "/var/lib/vgpumgr/claims"
        return sorted(path.rpartition("/")[2] for path in self.files if path.startswith(folder))

    def reboot(self) -> None:
        """Mdevs are gone, functions are on their own drivers, claims stay."""
        for path in [path for path in self.links if path.startswith(f"{MDEVS}/")]:
            self._vanish(posixpath.basename(path))
        for path, link in [*self.links.items()]:
            if path.startswith(f"{PCI}/devices/"):
                self.files[f"{link}/driver_override"] = "(null)\n"
                self.links.pop(f"{link}/driver", None)
                self._probe(posixpath.basename(path))

    # -- inside

    def _note(self, what: str, path: str) -> None:
        if self.cut_before and self.cut_before in f"{what} {path}":
            raise PowerCut
        self.log.append((what, path))

    def _readable(self, path: str) -> None:
        for beginning, number in self.unreadable.items():
            if path.startswith(beginning):
                raise refusal(number, path)

    def _resolve(self, path: str) -> str:
        done = ""
        for part in path.strip("/").split("/"):
            done = f"{done}/{part}"
            while done in self.links:
                done = self.links[done]
        return done

    def _below(self, path: str) -> Iterator[str]:
        start = f"{path}/"
        for known in (self.files, self.links, self.hooks):
            yield from (name[len(start) :] for name in known if name.startswith(start))

    def _used(self, path: str, types: Mapping[str, int]) -> int:
        return sum(
            types[posixpath.basename(target)]
            for link, target in self.links.items()
            if link.startswith(f"{path}/") and link.endswith("/mdev_type")
        )

    def _create(
        self, path: str, types: Mapping[str, int], budget: int, kind: str, size: int, uuid: str
    ) -> None:
        if f"{MDEVS}/{uuid}" in self.links:
            raise refusal(errno.EEXIST)
        if self._used(path, types) + size > budget:
            raise refusal(errno.EIO)
        device = f"{path}/{uuid}"
        self.next_group += 1
        self.links[f"{MDEVS}/{uuid}"] = device
        self.links[f"{device}/mdev_type"] = f"{path}/mdev_supported_types/{kind}"
        self.links[f"{device}/iommu_group"] = f"/sys/kernel/iommu_groups/{self.next_group}"
        self.links[f"{path}/mdev_supported_types/{kind}/devices/{uuid}"] = device
        self.hooks[f"{device}/remove"] = lambda _: self._vanish(uuid)

    def _vanish(self, uuid: str) -> None:
        device = self.links.pop(f"{MDEVS}/{uuid}")
        kind = self.links[f"{device}/mdev_type"]
        del self.links[f"{kind}/devices/{uuid}"]
        for known in (self.links, self.hooks):
            for path in [path for path in known if path.startswith(f"{device}/")]:
                del known[path]

    def _unbind(self, address: str) -> None:
        path = self.links[f"{PCI}/devices/{address}"]
        if f"{path}/driver" not in self.links:
            raise refusal(errno.ENODEV)
        del self.links[f"{path}/driver"]

    def _probe(self, address: str) -> None:
        path = self.links[f"{PCI}/devices/{address}"]
        override = self.read(f"{path}/driver_override").strip()
        native = self.files.get(f"{path}/native")
        wanted = native if override == "(null)" else override
        if wanted and f"{PCI}/drivers/{wanted}/." in self.files:
            self.links[f"{path}/driver"] = f"{PCI}/drivers/{wanted}"


def call(
    host: System, verb: str, /, fleet: str = FLEET, epoch: int = 1, **args: Any
) -> dict[str, Any]:
    """One request as a controller sends it; ``with_`` stands for ``with``."""
    named = {name.rstrip("_"): value for name, value in args.items()}
    return handle({"verb": verb, "args": named, "fleet": fleet, "epoch": epoch}, host)


def done(host: System, verb: str, /, **args: Any) -> dict[str, Any]:
    """The result of a call that must succeed."""
    answer = call(host, verb, **args)
    assert answer["ok"], answer
    return answer["result"]


def refused(host: System, verb: str, /, **args: Any) -> dict[str, Any]:
    """The error of a call that must fail."""
    answer = call(host, verb, **args)
    assert not answer["ok"], answer
    return answer["error"]


def mtty_host() -> FakeHost:
    """A host with a virtual parent of 4 units: types of 1 and 2."""
    host = FakeHost()
    host.add_parent("mtty", "/sys/devices/virtual/mtty/mtty", {"mtty-1": 1, "mtty-2": 2}, 4)
    return host


def gpu_host() -> FakeHost:
    """A GPU with its audio function behind a bridge, all in one IOMMU group."""
    host = FakeHost()
    host.add_function(GPU, driver="nvidia")
    host.add_function(AUDIO, kind="040300", driver="snd_hda_intel")
    host.add_function("0000:40:01.0", kind="060400", driver="pcieport")
    host.add_driver("vfio-pci")
    return host


def power_cut(host: FakeHost, before: str, verb: str, /, **args: Any) -> None:
    """Send a call and cut the power before the change that contains ``before``."""
    host.cut_before = before
    with contextlib.suppress(PowerCut):
        call(host, verb, **args)
        raise AssertionError(f"nothing was aborted: no {before!r} in {host.log}")
    host.cut_before = None
