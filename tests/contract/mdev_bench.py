"""A bench for mediated devices of any vendor."""

from __future__ import annotations

from dataclasses import dataclass

from tests.contract.bench import Bench, claim

PARENTS = "/sys/class/mdev_bus"
DEVICES = "/sys/bus/mdev/devices"


@dataclass(frozen=True, kw_only=True)
class MdevBench(Bench):
    """``type_id`` and ``other_type`` are types of different size of one empty ``parent``.

    ``elsewhere`` is a type of another parent of the same host. ``full`` is the errno of the
    vendor's driver when nothing of a type is left.
    """

    parent: str
    type_id: str
    other_type: str
    elsewhere: tuple[str, str]
    full: str

    def create(self, device: str, type_id: str = "", owner: str = "one") -> dict[str, object]:
        return self.call(
            "mdev_create",
            parent=self.parent,
            type=type_id or self.type_id,
            uuid=device,
            claim=claim(owner),
        )

    def look(self, device: str) -> dict[str, object]:
        return self.call("mdev_look", uuid=device)

    def remove(self, device: str, owner: str = "one") -> None:
        self.call("mdev_remove", uuid=device, claim=claim(owner))

    def by_hand(self, text: str) -> None:
        """Write to the type's ``create``."""
        self.machine.write(create_file(self.parent, self.type_id), text)

    def drop(self, device: str) -> None:
        """Take an mdev away by hand."""
        self.machine.write(remove_file(device), "1")

    def available(self, type_id: str) -> int:
        """``available_instances``, as a fresh probe shows it."""
        gpus = self.host.probe().gpus
        lists = {gpu.device: gpu.mdev_types for gpu in gpus}
        lists |= {vf.address: vf.mdev_types for gpu in gpus for vf in gpu.vfs}
        found = next(each for each in lists[self.parent] if each.type_id == type_id).available
        assert found is not None
        return found


def create_file(parent: str, type_id: str) -> str:
    return f"{PARENTS}/{parent}/mdev_supported_types/{type_id}/create"


def remove_file(device: str) -> str:
    return f"{DEVICES}/{device}/remove"
