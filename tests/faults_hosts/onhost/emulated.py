"""The kernel's part of mediated devices, under the real helper (see ``prepare.py``).

``launcher`` stands in for the helper's own on these hosts and runs :func:`main`; all but ``System``
is the helper as installed.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import itertools
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from vgpumgr.helper import __main__ as program
from vgpumgr.helper.system import System

DEVICES = Path("/sys/bus/mdev/devices")
GROUPS = Path("/sys/kernel/iommu_groups")


class Emulated(System):
    """A system whose mdevs are folders. Refusals and errno as in the kernel's drivers/vfio/mdev."""

    def read(self, path: str) -> str:
        """``available_instances`` follows from what there is."""
        if path.endswith("/available_instances"):
            parent = Path(path).resolve().parents[2]
            return f"{_left(parent)}\n"
        return super().read(path)

    def write(self, path: str, text: str) -> None:
        """``create`` and ``remove`` have effects."""
        place = Path(path)
        if place.name == "create":
            _create(place.resolve().parent, text.strip())
        elif place.name == "remove":
            _remove(place.parent)
        else:
            super().write(path, text)

    def busy(self, path: str) -> bool:
        """A group is busy while a QEMU has it locked."""
        try:
            with _held(Path(path)):
                return False
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True


def _left(parent: Path) -> int:
    return int((parent / "most").read_text()) - len(list(DEVICES.iterdir()))


def _create(kind: Path, uuid: str) -> None:
    parent = kind.parents[1]
    if (DEVICES / uuid).is_symlink():
        raise OSError(errno.EEXIST, os.strerror(errno.EEXIST))
    if _left(parent) <= 0:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    made = parent / uuid
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir()
    (made / "mdev_type").symlink_to(kind)
    (made / "iommu_group").symlink_to(_group())
    (made / "remove").touch()
    (kind / "devices" / uuid).symlink_to(made)
    (DEVICES / uuid).symlink_to(made)


def _group() -> Path:
    """A VFIO group that no mdev has."""
    taken = {(each / "iommu_group").resolve().name for each in DEVICES.iterdir()}
    number = next(each for each in itertools.count(1) if str(each) not in taken)
    (GROUPS / str(number)).mkdir(exist_ok=True)
    Path("/dev/vfio", str(number)).touch()
    return GROUPS / str(number)


def _remove(device: Path) -> None:
    try:
        made = device.resolve(strict=True)
    except FileNotFoundError as error:
        raise OSError(errno.ENODEV, os.strerror(errno.ENODEV)) from error
    group = Path("/dev/vfio", (made / "iommu_group").resolve().name)
    try:
        with _held(group):
            device.unlink()
    except BlockingIOError as error:
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY)) from error
    ((made / "mdev_type").resolve() / "devices" / made.name).unlink()
    shutil.rmtree(made)


@contextlib.contextmanager
def _held(group: Path) -> Iterator[None]:
    handle = os.open(group, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)


def main() -> int:
    """The helper's program over this system."""
    program.System = Emulated  # type: ignore[misc, attr-defined]
    return program.main()
