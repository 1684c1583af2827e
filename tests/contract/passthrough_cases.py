"""Whole PCI functions given to VMs (§11): the kernel by hand, and the helper over it."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.contract.bench import PCI, Bench, Cases, refused
from vgpumgr.model.domain import PciHostdev
from vgpumgr.model.errors import Conflict, HostRefused, InUse, NotFound

VFIO = "vfio-pci"
NO_FUNCTION = "0000:ff:1f.7"


@dataclass(frozen=True, kw_only=True)
class PassthroughBench(Bench):
    """``gpu`` is a function on a driver of the host that may be given to vfio-pci."""

    gpu: str

    def look(self, address: str = "") -> dict[str, object]:
        return self.call("vfio_look", address=address or self.gpu)

    def driver(self) -> object:
        return self.look()["driver"]

    def give(self, owner: str = "one") -> dict[str, object]:
        """The whole group to vfio-pci."""
        return self.bind(self.gpu, *self.mates(self.gpu), owner=owner)

    def take(self, owner: str = "one") -> dict[str, object]:
        return self.unbind(self.gpu, owner)


CASES = Cases[PassthroughBench]()
# For a function that the kernel knows how to reset.
RESET_CASES = Cases[PassthroughBench]()
# For a function that shares its IOMMU group with others that are on host drivers too.
GROUP_CASES = Cases[PassthroughBench]()
CLIENT_CASES = Cases[PassthroughBench]()


# -- the kernel, by hand


@CASES.case("11.1")
def a_driver_takes_only_what_it_knows_and_only_once(bench: PassthroughBench) -> None:
    own = f"{PCI}/drivers/{bench.driver()}"
    with refused("ENODEV"):
        bench.machine.write(f"{own}/bind", NO_FUNCTION)
    with refused("EBUSY"):
        bench.machine.write(f"{own}/bind", bench.gpu)
    bench.machine.run("modprobe", VFIO)
    with refused("ENODEV"):
        bench.machine.write(f"{PCI}/drivers/{VFIO}/bind", bench.gpu)


@CASES.case("11.2")
def a_driver_gives_up_only_what_it_has(bench: PassthroughBench) -> None:
    bench.machine.run("modprobe", VFIO)
    with refused("ENODEV"):
        bench.machine.write(f"{PCI}/drivers/{VFIO}/unbind", bench.gpu)
    with refused("ENODEV"):
        bench.machine.write(f"{PCI}/drivers_probe", NO_FUNCTION)


@CASES.case("11.3")
def a_driver_override_is_shorter_than_a_page(bench: PassthroughBench) -> None:
    with refused("EINVAL"):
        bench.machine.write(f"{PCI}/devices/{bench.gpu}/driver_override", "x" * 4096)
    assert bench.look()["driver_override"] is None


@RESET_CASES.case("11.4")
def a_reset_takes_1_and_a_method(bench: PassthroughBench) -> None:
    bench.give()
    folder = f"{PCI}/devices/{bench.gpu}"
    with refused("EINVAL"):
        bench.machine.write(f"{folder}/reset", "0")
    with refused("EINVAL"):
        bench.machine.write(f"{folder}/reset_method", "no-such-method")
    bench.machine.write(f"{folder}/reset_method", "\n")
    with refused("ENOTTY"):
        bench.machine.write(f"{folder}/reset", "1")
    bench.machine.write(f"{folder}/reset_method", "default")
    bench.machine.write(f"{folder}/reset", "1")
    bench.take()


@RESET_CASES.case("11.5")
def a_function_goes_to_the_next_guest_only_after_a_reset(bench: PassthroughBench) -> None:
    bench.give()
    with bench.running("first", PciHostdev(address=bench.gpu)):
        pass
    bench.take()
    method = f"{PCI}/devices/{bench.gpu}/reset_method"
    bench.machine.write(method, "\n")
    with pytest.raises(HostRefused) as caught:
        bench.give(owner="two")
    assert caught.value.errno_name == "ENOTTY"
    assert bench.look()["claim"] is None
    bench.machine.write(method, "default")
    bench.give(owner="two")
    bench.take(owner="two")


@GROUP_CASES.case("11.6")
def a_group_is_given_whole(bench: PassthroughBench) -> None:
    assert bench.mates(bench.gpu)
    with pytest.raises(HostRefused, match="not viable"):
        bench.bind(bench.gpu)
    assert bench.look()["claim"] is None
    bench.give()
    drivers = {bench.look(each)["driver"] for each in (bench.gpu, *bench.mates(bench.gpu))}
    assert drivers == {VFIO}
    bench.take()


@GROUP_CASES.case("11.6")
def a_vm_does_not_start_with_half_a_group(bench: PassthroughBench) -> None:
    bench.give()
    mate = bench.mates(bench.gpu)[0]
    folder = f"{PCI}/devices/{mate}"
    bench.machine.write(f"{folder}/driver_override", "\n")
    bench.machine.write(f"{PCI}/drivers/{VFIO}/unbind", mate)
    bench.machine.write(f"{PCI}/drivers_probe", mate)
    assert isinstance(bench.refused_start("half", PciHostdev(address=bench.gpu)), HostRefused)
    bench.take()


@CLIENT_CASES.case("11.7")
def a_function_that_a_program_holds_is_in_use(bench: PassthroughBench) -> None:
    before = bench.driver()
    with (
        bench.may_suffer.client(bench.gpu, "dcgm"),
        pytest.raises(InUse, match=bench.gpu) as caught,
    ):
        bench.give()
    assert "dcgm" in caught.value.why
    assert (bench.driver(), bench.look()["claim"]) == (before, None)


# -- the helper


@CASES.case("11.8")
def a_function_is_bound_seen_and_given_back(bench: PassthroughBench) -> None:
    original = bench.driver()
    assert bench.give() == {"driver": VFIO, "original_driver": original}
    seen = bench.look()
    assert (seen["driver"], seen["driver_override"]) == (VFIO, VFIO)
    assert seen["in_use"] is False
    assert bench.take()["driver"] == original
    seen = bench.look()
    assert (seen["driver"], seen["driver_override"]) == (original, None)
    assert seen["claim"] is None


@CASES.case()
def binding_again_under_the_same_claim_is_no_error(bench: PassthroughBench) -> None:
    original = bench.driver()
    bench.give()
    assert bench.give() == {"driver": VFIO, "original_driver": original}
    bench.take()
    assert bench.take()["driver"] == original


@CASES.case()
def a_function_is_given_back_only_under_its_claim(bench: PassthroughBench) -> None:
    bench.give()
    with pytest.raises(Conflict):
        bench.take(owner="two")
    with pytest.raises(Conflict):
        bench.give(owner="two")
    assert bench.driver() == VFIO
    bench.take()


@CASES.case("11.9")
def a_function_that_a_vm_holds_is_in_use(bench: PassthroughBench) -> None:
    bench.give()
    with bench.running("holder", PciHostdev(address=bench.gpu)):
        with pytest.raises(InUse):
            bench.take()
        assert bench.driver() == VFIO
        assert isinstance(bench.refused_start("second", PciHostdev(address=bench.gpu)), InUse)
    bench.take()


@CASES.case("11.10")
def a_vm_does_not_start_with_a_function_of_the_host_driver(bench: PassthroughBench) -> None:
    refused_start = bench.refused_start("unbound", PciHostdev(address=bench.gpu))
    assert isinstance(refused_start, HostRefused)


@CASES.case()
def an_unknown_function_is_not_found(bench: PassthroughBench) -> None:
    assert bench.look(NO_FUNCTION)["exists"] is False
    with pytest.raises(NotFound):
        bench.bind(NO_FUNCTION)
