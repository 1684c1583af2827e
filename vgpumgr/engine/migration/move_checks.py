"""Conditions between two hosts that must hold before a VM moves.

Live moves of a VM with a vGPU: the same board, type and host driver on both, new enough
programs, pre-copy alone (NVIDIA AI Enterprise documentation; OpenStack Nova's rules).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from vgpumgr.engine.migration.move_plan import MoveCheck, failed_check, passed_check
from vgpumgr.engine.migration.move_reads import MoveReads
from vgpumgr.model.allocation import Allocation
from vgpumgr.model.domain import DomainState
from vgpumgr.model.formats import LIVE_VGPU_NEEDS, version_numbers
from vgpumgr.model.gpu import Framework, GpuFacts
from vgpumgr.model.host import HostFacts, HostRecord, Membership
from vgpumgr.model.placement import Placed
from vgpumgr.model.vm import VmRecord

MIGRATABLE = frozenset({Framework.MDEV, Framework.VFIO_VF})
_NVIDIA = "10de:"


def host_checks(
    vm: VmRecord, source: HostRecord, target: HostRecord, looks: MoveReads
) -> Iterator[MoveCheck]:
    """The checks of every move."""
    if vm.definition:
        text = f"{vm.name} was adopted: only its own definition says what it needs there"
        yield failed_check("adopted", text, f"vgpumgr vm show {vm.name}")
    if target.cordoned:
        yield failed_check(
            "cordon", f"{target.name} is cordoned", f"vgpumgr host uncordon {target.name}"
        )
    if target.membership is not Membership.MEMBER:
        text = f"{target.name} is {target.membership} the fleet"
        yield failed_check("member", text, "vgpumgr operation list --open")
    if target.probe_only:
        yield failed_check("helper", f"{target.name} has no helper: it is probe-only")
    if vm.spec.affinity.hosts and target.name not in vm.spec.affinity.hosts:
        wanted = ", ".join(vm.spec.affinity.hosts)
        yield failed_check("affinity", f"{vm.name} has an affinity that allows only {wanted}")
    if looks.namesake is not None:
        text = f"{target.name} has a domain {vm.name} already"
        yield failed_check("name", text, f"remove that domain with virsh on {target.name}")
    else:
        yield passed_check("name", f"{vm.name} is free on {target.name}")
    state = looks.domain.state
    if state not in {DomainState.RUNNING, DomainState.SHUTOFF, DomainState.CRASHED}:
        yield failed_check(
            "power", f"{vm.name} is {state} on {source.name}", f"vgpumgr vm stop {vm.name}"
        )
    yield from _beside(vm, source.name, looks)


def _beside(vm: VmRecord, source: str, looks: MoveReads) -> Iterator[MoveCheck]:
    """Checks of libvirt's own records of a domain: they do not move, and are lost with its
    definition.
    """
    if looks.beside.snapshots:
        text = f"{vm.name} has {looks.beside.snapshots} snapshots on {source}"
        yield failed_check("snapshots", text, f"on {source}: virsh snapshot-list {vm.name}")
    if looks.beside.saved_state:
        text = f"{vm.name} is saved to disk on {source}, its memory would be lost"
        yield failed_check("saved-state", text, f"vgpumgr vm start {vm.name}")


def cold_checks(vm: VmRecord, target: str) -> Iterator[MoveCheck]:
    """The checks of a move of a guest that is off. swtpm's state is a file that libvirt keeps on
    the domain's host, and takes along itself in a live move alone.
    """
    if vm.spec.tpm:
        yield passed_check("tpm", f"the state of its TPM is carried over to {target}")
    if vm.spec.firmware == "uefi":
        yield passed_check(
            "firmware", "UEFI variables are reset: the guest boots by its fallback path"
        )


def live_checks(
    vm: VmRecord,
    held: Sequence[Allocation],
    source: HostRecord,
    target: HostRecord,
    looks: MoveReads,
) -> Iterator[MoveCheck]:
    """The further checks of a running guest."""
    here, there = source.facts, target.facts
    assert here is not None and there is not None, "both were probed"
    yield from _frameworks(vm, held)
    yield from _nics(vm, target.name)
    yield _address(target)
    cold = _cold(vm, target.name)
    if held:
        yield from (check for facts in (here, there) for check in _new_enough(facts, cold))
    yield from _not_older(here, there, cold)
    yield _cpu(vm, here, there, looks.cpu_fits)


def gpu_checks(
    vm: VmRecord,
    held: Sequence[Allocation],
    placed: Placed | None,
    gpus: Mapping[str, GpuFacts],
    source: HostFacts,
    target: HostFacts,
) -> Iterator[MoveCheck]:
    """The checks of boards and drivers for a live move; ``gpus`` by our ids."""
    before = [gpus[each.gpu] for each in held]
    if any(map(is_nvidia, before)):
        yield _driver(vm, source, target)
    after = [gpus[part.gpu] for part in placed.assignments] if placed else []
    ecc = {gpu.ecc for gpu in (*before, *after)} - {None}
    if after and len(ecc) > 1:
        words = f"ECC is on for one of the GPUs on {source.host} and {target.host}, off for another"
        yield failed_check("ecc", words, _cold(vm, target.host))


def is_nvidia(gpu: GpuFacts) -> bool:
    """Is its driver one that must be the same on both hosts?"""
    return gpu.vendor_device.startswith(_NVIDIA)


def _frameworks(vm: VmRecord, held: Sequence[Allocation]) -> Iterator[MoveCheck]:
    stuck = [each for each in held if each.framework not in MIGRATABLE]
    for each in stuck:
        text = f"{each.profile} ({each.framework}) cannot move while {vm.name} runs"
        yield failed_check("framework", text, f"vgpumgr vm stop {vm.name}, or add --cold")
    if held and not stuck:
        names = ", ".join(dict.fromkeys(f"{each.profile} ({each.framework})" for each in held))
        yield passed_check("framework", f"{names} can move with the running guest")


def _nics(vm: VmRecord, target: str) -> Iterator[MoveCheck]:
    """VFIO migrates a VF only where its own vendor's driver can, and libvirt's hostdev NIC never
    asks it to.
    """
    for number, nic in enumerate(vm.spec.nics):
        if nic.sriov is not None:
            text = f"NIC {number} of {vm.name} is a VF of {nic.sriov.words}: it stays here"
            yield failed_check("sriov", text, _cold(vm, target))


def _address(target: HostRecord) -> MoveCheck:
    if target.migration is None:
        return failed_check(
            "address",
            f"{target.name} has no migration address",
            f"vgpumgr host migration {target.name} --address ADDRESS, or add --cold",
        )
    how = "TLS" if target.migration.tls else "NOT encrypted"
    return passed_check("address", f"{target.migration.address}, {how}")


def _new_enough(facts: HostFacts, otherwise: str) -> Iterator[MoveCheck]:
    for what, least in LIVE_VGPU_NEEDS.items():
        has = getattr(facts.versions, what)
        if version_numbers(has) < least:
            wanted = ".".join(map(str, least))
            text = f"{facts.host} has {what} {has or 'of an unknown version'}, {wanted} is needed"
            yield failed_check(what, text, otherwise)
        else:
            yield passed_check(what, f"{facts.host} has {what} {has}")


def _not_older(source: HostFacts, target: HostFacts, otherwise: str) -> Iterator[MoveCheck]:
    for what in ("libvirt", "qemu"):
        here, there = getattr(source.versions, what), getattr(target.versions, what)
        if not version_numbers(here) or not version_numbers(there):
            yield failed_check(what, f"the version of {what} is not known on both hosts", otherwise)
        elif version_numbers(there) < version_numbers(here):
            text = f"{what} {there} on {target.host} is older than {here} on {source.host}"
            yield failed_check(what, text, otherwise)


def _cpu(vm: VmRecord, source: HostFacts, target: HostFacts, fits: bool | None) -> MoveCheck:
    if fits:
        return passed_check("cpu", f"{target.host} can give {vm.name} its CPU")
    if fits is False:
        return failed_check(
            "cpu", f"{target.host} lacks what {vm.name}'s CPU has", _cold(vm, target.host)
        )
    if source.cpu_model and source.cpu_model == target.cpu_model:
        return passed_check("cpu", f"both hosts have {source.cpu_model}")
    models = " and ".join(facts.cpu_model or "unknown" for facts in (source, target))
    text = f"libvirt cannot compare the CPUs, and the models are {models}"
    return failed_check("cpu", text, _cold(vm, target.host))


def _driver(vm: VmRecord, source: HostFacts, target: HostFacts) -> MoveCheck:
    here, there = source.versions.driver, target.versions.driver
    if here and here == there:
        return passed_check("driver", f"both hosts have driver {here}")
    words = f"{source.host} has driver {here or 'unknown'}, {target.host} {there or 'unknown'}"
    return failed_check("driver", f"{words}: they must be the same", _cold(vm, target.host))


def _cold(vm: VmRecord, target: str) -> str:
    return f"vgpumgr vm migrate {vm.name} --to {target} --cold"
