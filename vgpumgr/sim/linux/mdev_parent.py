"""What a vendor's driver adds to the kernel's mdev core."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from vgpumgr.sim.boards.mdev_type import MdevType
from vgpumgr.sim.linux.nodes import File


class Parent(Protocol):
    """A parent device and its driver's rules."""

    @property
    def name(self) -> str:
        """Its name under ``/sys/class/mdev_bus``."""

    @property
    def path(self) -> str:
        """Its folder in ``/sys/devices``."""

    @property
    def driver(self) -> str:
        """The driver that its mdevs are bound to."""

    @property
    def types(self) -> tuple[MdevType, ...]:
        """What it can make."""

    def available(self, wanted: MdevType, made: list[MdevType]) -> int:
        """``available_instances`` of a type while ``made`` exist."""

    def make(self, uuid: str, wanted: MdevType, made: list[MdevType]) -> None:
        """Make one; OSError where the driver refuses."""

    def unmake(self, uuid: str) -> None:
        """Take one away; OSError while a VM holds it."""

    def attributes(self, uuid: str) -> Mapping[str, File]:
        """The driver's own files of an mdev, by their path below it."""
