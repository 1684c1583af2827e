"""Mediated devices of any vendor: the kernel's mdev core (§2), and the helper over it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from tests.contract.bench import Bench, Cases, claim, new_uuid, refused
from vgpumgr.model.domain import MdevHostdev
from vgpumgr.model.errors import Conflict, HostRefused, InUse, NotFound

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
        for gpu in self.host.probe().gpus:
            for function in (gpu, *gpu.vfs):
                name = getattr(function, "device", None) or getattr(function, "address", "")
                for each in function.mdev_types:
                    if (name, each.type_id) == (self.parent, type_id):
                        assert each.available is not None
                        return each.available
        return 0


CASES = Cases[MdevBench]()


def create_file(parent: str, type_id: str) -> str:
    return f"{PARENTS}/{parent}/mdev_supported_types/{type_id}/create"


def remove_file(device: str) -> str:
    return f"{DEVICES}/{device}/remove"


# -- the kernel, by hand


@CASES.case("2.1")
def a_uuid_of_another_length_is_refused(bench: MdevBench) -> None:
    device = new_uuid()
    for text in (device[:-1], f"{device}00", f"{device}\n\n", ""):
        with refused("EINVAL"):
            bench.by_hand(text)
    bench.by_hand(f"{device}\n")
    bench.drop(device)


@CASES.case("2.2")
def a_malformed_uuid_is_refused(bench: MdevBench) -> None:
    for text in ("g" * 36, new_uuid().replace("-", "0")):
        with refused("EINVAL"):
            bench.by_hand(text)
    with pytest.raises(HostRefused):
        bench.create("not-a-uuid")


@CASES.case("2.3")
def a_uuid_exists_once_on_the_whole_host(bench: MdevBench) -> None:
    device = new_uuid()
    bench.by_hand(device)
    for where in ((bench.parent, bench.other_type), bench.elsewhere):
        with refused("EEXIST"):
            bench.machine.write(create_file(*where), device)
    bench.drop(device)


@CASES.case("2.4")
def the_drivers_own_errno_comes_through_when_nothing_is_left(bench: MdevBench) -> None:
    devices = [new_uuid() for _ in range(bench.available(bench.type_id))]
    for device in devices:
        bench.by_hand(device)
    with refused(bench.full):
        bench.by_hand(new_uuid())
    for device in devices:
        bench.drop(device)


@CASES.case("2.5", "2.6")
def an_mdev_is_removed_by_a_number_other_than_0(bench: MdevBench) -> None:
    device = new_uuid()
    bench.by_hand(device)
    with refused("EINVAL"):
        bench.machine.write(remove_file(device), "yes")
    bench.machine.write(remove_file(device), "0")
    assert bench.look(device)["exists"] is True
    bench.drop(device)
    assert bench.look(device)["exists"] is False


@CASES.case("2.7")
def the_kernel_writes_a_uuid_in_small_letters(bench: MdevBench) -> None:
    device = "ABCDEF01-2345-4678-9ABC-DEF012345678"
    bench.by_hand(device)
    assert bench.machine.exists(f"{DEVICES}/{device.lower()}")
    assert not bench.machine.exists(f"{DEVICES}/{device}")
    bench.drop(device.lower())


@CASES.case("2.8")
def each_mdev_has_an_iommu_group_of_its_own(bench: MdevBench) -> None:
    device = new_uuid()
    bench.by_hand(device)
    group = f"{DEVICES}/{device}/iommu_group"
    name = bench.machine.target(group)
    assert name.isdigit()
    assert bench.machine.exists(f"/dev/vfio/{name}")
    assert bench.machine.exists(f"{group}/devices/{device}")
    assert bench.machine.target(f"{PARENTS}/{bench.parent}/iommu_group") != name
    bench.drop(device)


# -- the helper


@CASES.case()
def an_mdev_is_made_seen_and_removed(bench: MdevBench) -> None:
    device = new_uuid()
    assert bench.look(device)["exists"] is False
    made = bench.create(device)
    seen = bench.look(device)
    assert made["state"] == "in-state"
    assert (seen["exists"], seen["parent"], seen["type"]) == (True, bench.parent, bench.type_id)
    assert isinstance(seen["iommu_group"], int)
    assert seen["in_use"] is False
    facts = bench.host.probe()
    assert device in [each.uuid for each in facts.mdevs]
    assert f"mdev-{device}" in [each.unit for each in facts.claims]
    bench.remove(device)
    assert bench.look(device)["exists"] is False


@CASES.case()
def making_an_mdev_again_under_the_same_claim_is_no_error(bench: MdevBench) -> None:
    device = new_uuid()
    bench.create(device)
    assert bench.create(device)["state"] == "in-state"
    bench.remove(device)


@CASES.case()
def removing_an_mdev_again_is_no_error(bench: MdevBench) -> None:
    device = new_uuid()
    bench.create(device)
    bench.remove(device)
    bench.remove(device)


@CASES.case()
def an_unknown_type_is_not_found_and_leaves_no_claim(bench: MdevBench) -> None:
    with pytest.raises(NotFound):
        bench.create(new_uuid(), "no-such-type")
    assert bench.host.probe().claims == ()


@CASES.case()
def an_unknown_parent_is_not_found(bench: MdevBench) -> None:
    with pytest.raises(NotFound):
        replace(bench, parent="no-such-parent").create(new_uuid())


@CASES.case()
def one_mdev_lowers_what_is_left_of_every_type(bench: MdevBench) -> None:
    before = bench.available(bench.type_id), bench.available(bench.other_type)
    device = new_uuid()
    bench.create(device)
    after = bench.available(bench.type_id), bench.available(bench.other_type)
    assert after[0] == before[0] - 1
    assert after[1] < before[1]
    bench.remove(device)
    assert (bench.available(bench.type_id), bench.available(bench.other_type)) == before


@CASES.case()
def as_many_as_announced_fit_and_the_next_is_refused(bench: MdevBench) -> None:
    devices = [new_uuid() for _ in range(bench.available(bench.type_id))]
    for device in devices:
        bench.create(device)
    with pytest.raises(HostRefused):
        bench.create(new_uuid())
    assert len(bench.host.probe().claims) == len(devices)
    for device in devices:
        bench.remove(device)


@CASES.case()
def an_mdev_is_given_back_only_under_its_claim(bench: MdevBench) -> None:
    device = new_uuid()
    bench.create(device)
    with pytest.raises(Conflict):
        bench.remove(device, owner="two")
    with pytest.raises(Conflict):
        bench.create(device, owner="two")
    assert bench.look(device)["exists"] is True
    bench.remove(device)


@CASES.case()
def a_foreign_mdev_is_seen_and_left_alone(bench: MdevBench) -> None:
    device = new_uuid()
    bench.by_hand(device)
    seen = bench.look(device)
    assert (seen["exists"], seen["claim"]) == (True, None)
    with pytest.raises(Conflict):
        bench.remove(device)
    with pytest.raises(Conflict):
        bench.create(device)
    assert bench.look(device)["exists"] is True
    bench.drop(device)


@CASES.case("2.9")
def an_mdev_that_a_vm_holds_is_in_use(bench: MdevBench) -> None:
    device = new_uuid()
    bench.create(device)
    with bench.running("holder", MdevHostdev(uuid=device)):
        assert bench.look(device)["in_use"] is True
        with pytest.raises(InUse):
            bench.remove(device)
        assert bench.look(device)["exists"] is True
        assert isinstance(bench.refused_start("second", MdevHostdev(uuid=device)), InUse)
    assert bench.look(device)["in_use"] is False
    bench.remove(device)


@CASES.case()
def a_vm_does_not_start_with_an_mdev_that_does_not_exist(bench: MdevBench) -> None:
    assert isinstance(bench.refused_start("nothing", MdevHostdev(uuid=new_uuid())), HostRefused)
