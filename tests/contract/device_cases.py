"""What every host with devices must do, simulated or real: one list of cases.

A case is a function of a ``Bench`` that raises AssertionError. Where the simulation and a real
host differ, the simulation is wrong.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pytest

from vgpumgr import domainxml
from vgpumgr.model.domain import (
    DomainPlan,
    DomainState,
    Hostdev,
    MdevHostdev,
    Ownership,
    PciHostdev,
)
from vgpumgr.model.errors import Conflict, HostRefused, InUse, NotFound
from vgpumgr.model.host import HostFacts
from vgpumgr.model.ports import Host

PREFIX = "contract-"


@dataclass(frozen=True)
class Bench:
    """A host and what may be used on it.

    ``type_id`` and ``other_type`` are types of different size of one empty ``parent``; ``gpu`` is
    a function that may be bound to vfio-pci, or None. ``make_foreign`` makes an mdev behind the
    helper's back and ``drop_foreign`` takes it away.
    """

    host: Host
    parent: str
    type_id: str
    other_type: str
    gpu: str | None
    make_foreign: Callable[[str], None]
    drop_foreign: Callable[[str], None]

    def create(self, device: str, type_id: str = "", owner: str = "one") -> dict[str, object]:
        return self.host.helper.call(
            "mdev_create",
            {
                "parent": self.parent,
                "type": type_id or self.type_id,
                "uuid": device,
                "claim": claim(owner),
            },
        )

    def look(self, device: str) -> dict[str, object]:
        return self.host.helper.call("mdev_look", {"uuid": device})

    def remove(self, device: str, owner: str = "one") -> None:
        self.host.helper.call("mdev_remove", {"uuid": device, "claim": claim(owner)})

    def bind(self, owner: str = "one") -> dict[str, object]:
        return self.host.helper.call(
            "vfio_bind", {"address": self._gpu(), "with": self._mates(), "claim": claim(owner)}
        )

    def driver(self) -> object:
        return self.host.helper.call("vfio_look", {"address": self._gpu()})["driver"]

    def release(self, owner: str = "one") -> dict[str, object]:
        return self.host.helper.call(
            "vfio_release", {"address": self._gpu(), "claim": claim(owner)}
        )

    def available(self, type_id: str) -> int:
        for gpu in self.host.probe().gpus:
            for each in gpu.mdev_types:
                if (gpu.device, each.type_id) == (self.parent, type_id):
                    assert each.available is not None
                    return each.available
        return 0

    @contextmanager
    def running(self, name: str, *devices: Hostdev) -> Iterator[str]:
        """A domain with the devices, running; off and forgotten afterwards."""
        name = PREFIX + name
        self.host.domains.define(domain(self.host.probe(), name, devices))
        self.host.domains.start(name)
        yield name
        self.host.domains.destroy(name)
        self.host.domains.undefine(name)

    def refused_start(self, name: str, device: Hostdev) -> Exception:
        """The error of starting a domain with the device."""
        name = PREFIX + name
        self.host.domains.define(domain(self.host.probe(), name, (device,)))
        with pytest.raises((HostRefused, InUse, NotFound)) as caught:
            self.host.domains.start(name)
        found = self.host.domains.look(name)
        assert found is not None
        assert found.state is DomainState.SHUTOFF
        self.host.domains.undefine(name)
        return caught.value

    def clean(self) -> None:
        """Take away what a failed case left."""
        for each in self.host.domains.list():
            if each.name.startswith(PREFIX):
                self.host.domains.destroy(each.name)
                self.host.domains.undefine(each.name)
        for each in self.host.probe().claims:
            held = {
                "allocation": each.allocation,
                "generation": each.generation,
                "vm": each.vm,
            }
            kind, _, device = each.unit.partition("-")
            verb, key = {"mdev": ("mdev_remove", "uuid"), "pci": ("vfio_release", "address")}[kind]
            self.host.helper.call(verb, {key: device, "claim": held})

    def _gpu(self) -> str:
        if self.gpu is None:
            pytest.skip("no function to bind on this bench")
        return self.gpu

    def _mates(self) -> list[str]:
        gpus = {gpu.device: gpu for gpu in self.host.probe().gpus}
        return [name for name in gpus[self._gpu()].group_devices if name != self._gpu()]


Case = Callable[[Bench], None]


def claim(owner: str) -> dict[str, object]:
    return {"allocation": f"allocation-{owner}", "generation": 1, "vm": owner}


def new_uuid() -> str:
    return str(uuid.uuid4())


def domain(facts: HostFacts, name: str, devices: tuple[Hostdev, ...]) -> str:
    plan = DomainPlan(
        name=name,
        uuid=new_uuid(),
        vcpus=1,
        memory_mib=128,
        accelerator="kvm" if facts.kvm else "tcg",
        firmware="bios",
        hostdevs=devices,
        ownership=Ownership(fleet="contract", vm=name, vm_id=name, generation=1),
    )
    return domainxml.render(plan, facts.versions)


def state(facts: HostFacts) -> HostFacts:
    """What must be the same before and after: all but the volatile."""
    return replace(facts, domains=tuple(each for each in facts.domains if not _ours(each.name)))


def _ours(name: str) -> bool:
    return name.startswith(PREFIX)


# -- mediated devices


def an_mdev_is_made_seen_and_removed(bench: Bench) -> None:
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


def making_an_mdev_again_under_the_same_claim_is_no_error(bench: Bench) -> None:
    device = new_uuid()
    bench.create(device)
    assert bench.create(device)["state"] == "in-state"
    bench.remove(device)


def removing_an_mdev_again_is_no_error(bench: Bench) -> None:
    device = new_uuid()
    bench.create(device)
    bench.remove(device)
    bench.remove(device)


def a_malformed_uuid_is_refused(bench: Bench) -> None:
    with pytest.raises(HostRefused):
        bench.create("not-a-uuid")


def an_unknown_type_is_not_found_and_leaves_no_claim(bench: Bench) -> None:
    with pytest.raises(NotFound):
        bench.create(new_uuid(), "no-such-type")
    assert bench.host.probe().claims == ()


def an_unknown_parent_is_not_found(bench: Bench) -> None:
    with pytest.raises(NotFound):
        replace(bench, parent="no-such-parent").create(new_uuid())


def one_mdev_lowers_what_is_left_of_every_type(bench: Bench) -> None:
    before = bench.available(bench.type_id), bench.available(bench.other_type)
    device = new_uuid()
    bench.create(device)
    after = bench.available(bench.type_id), bench.available(bench.other_type)
    assert after[0] == before[0] - 1
    assert after[1] < before[1]
    bench.remove(device)
    assert (bench.available(bench.type_id), bench.available(bench.other_type)) == before


def as_many_as_announced_fit_and_the_next_is_refused(bench: Bench) -> None:
    devices = [new_uuid() for _ in range(bench.available(bench.type_id))]
    for device in devices:
        bench.create(device)
    with pytest.raises(HostRefused):
        bench.create(new_uuid())
    assert len(bench.host.probe().claims) == len(devices)
    for device in devices:
        bench.remove(device)


def an_mdev_is_given_back_only_under_its_claim(bench: Bench) -> None:
    device = new_uuid()
    bench.create(device)
    with pytest.raises(Conflict):
        bench.remove(device, owner="two")
    with pytest.raises(Conflict):
        bench.create(device, owner="two")
    assert bench.look(device)["exists"] is True
    bench.remove(device)


def a_foreign_mdev_is_seen_and_left_alone(bench: Bench) -> None:
    device = new_uuid()
    bench.make_foreign(device)
    seen = bench.look(device)
    assert (seen["exists"], seen["claim"]) == (True, None)
    with pytest.raises(Conflict):
        bench.remove(device)
    with pytest.raises(Conflict):
        bench.create(device)
    assert bench.look(device)["exists"] is True
    bench.drop_foreign(device)


def an_mdev_that_a_vm_holds_is_in_use(bench: Bench) -> None:
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


def a_vm_does_not_start_with_an_mdev_that_does_not_exist(bench: Bench) -> None:
    assert isinstance(bench.refused_start("nothing", MdevHostdev(uuid=new_uuid())), HostRefused)


# -- whole functions


def a_function_is_bound_seen_and_given_back(bench: Bench) -> None:
    original = bench.driver()
    assert bench.bind() == {"driver": "vfio-pci", "original_driver": original}
    seen = bench.host.helper.call("vfio_look", {"address": bench.gpu})
    assert (seen["driver"], seen["driver_override"]) == ("vfio-pci", "vfio-pci")
    assert seen["in_use"] is False
    assert bench.release()["driver"] == original
    seen = bench.host.helper.call("vfio_look", {"address": bench.gpu})
    assert (seen["driver"], seen["driver_override"]) == (original, None)
    assert seen["claim"] is None


def binding_again_under_the_same_claim_is_no_error(bench: Bench) -> None:
    original = bench.driver()
    bench.bind()
    assert bench.bind() == {"driver": "vfio-pci", "original_driver": original}
    bench.release()
    assert bench.release()["driver"] == original


def a_function_is_given_back_only_under_its_claim(bench: Bench) -> None:
    bench.bind()
    with pytest.raises(Conflict):
        bench.release(owner="two")
    with pytest.raises(Conflict):
        bench.bind(owner="two")
    assert bench.driver() == "vfio-pci"
    bench.release()


def a_function_that_a_vm_holds_is_in_use(bench: Bench) -> None:
    bench.bind()
    assert bench.gpu is not None
    with bench.running("holder", PciHostdev(address=bench.gpu)):
        with pytest.raises(InUse):
            bench.release()
        assert bench.driver() == "vfio-pci"
        assert isinstance(bench.refused_start("second", PciHostdev(address=bench.gpu)), InUse)
    bench.release()


def a_vm_does_not_start_with_a_function_of_the_host_driver(bench: Bench) -> None:
    if bench.gpu is None or bench.driver() is None:
        pytest.skip("no function on a host driver on this bench")
    refused = bench.refused_start("unbound", PciHostdev(address=bench.gpu))
    assert isinstance(refused, HostRefused)


def an_unknown_function_is_not_found(bench: Bench) -> None:
    seen = bench.host.helper.call("vfio_look", {"address": "0000:ff:1f.7"})
    assert seen["exists"] is False
    with pytest.raises(NotFound):
        bench.host.helper.call(
            "vfio_bind", {"address": "0000:ff:1f.7", "with": [], "claim": claim("one")}
        )


CASES: tuple[Case, ...] = (
    an_mdev_is_made_seen_and_removed,
    making_an_mdev_again_under_the_same_claim_is_no_error,
    removing_an_mdev_again_is_no_error,
    a_malformed_uuid_is_refused,
    an_unknown_type_is_not_found_and_leaves_no_claim,
    an_unknown_parent_is_not_found,
    one_mdev_lowers_what_is_left_of_every_type,
    as_many_as_announced_fit_and_the_next_is_refused,
    an_mdev_is_given_back_only_under_its_claim,
    a_foreign_mdev_is_seen_and_left_alone,
    an_mdev_that_a_vm_holds_is_in_use,
    a_vm_does_not_start_with_an_mdev_that_does_not_exist,
    a_function_is_bound_seen_and_given_back,
    binding_again_under_the_same_claim_is_no_error,
    a_function_is_given_back_only_under_its_claim,
    a_function_that_a_vm_holds_is_in_use,
    a_vm_does_not_start_with_a_function_of_the_host_driver,
    an_unknown_function_is_not_found,
)
