"""A domain that another hand defined → the VM's spec, or why there is none. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from vgpumgr.domainxml import Described
from vgpumgr.domainxml.described import X86_HUGEPAGE_KIB
from vgpumgr.model.vm import NumaPolicy, VmSpec

# What only the definition of an adopted VM says: a spec changes none of it.
FIXED = (
    *("nics", "firmware", "display", "console", "agent", "hugepage_kib", "pin_cpus", "numa"),
    *("disks", "cloud_init"),
)


def spec_of(
    domain: Described, default_hugepage_kib: int | None = X86_HUGEPAGE_KIB
) -> VmSpec | tuple[str, ...]:
    """The spec, without GPUs and autostart, or every reason why the domain cannot be adopted, but
    for its name. ``default_hugepage_kib`` is the size of its host's huge pages where it names none.

    Disks are none of it: they are not ours, and stay in the definition as they are. So does a NIC
    that a spec cannot say, and with it all NICs.
    """
    reasons = tuple(_reasons(domain))
    if reasons:
        return reasons
    nics = [nic for nic in domain.nics if nic is not None]
    return VmSpec(
        name=domain.name,
        vcpus=domain.vcpus,
        memory_mib=domain.memory_mib,
        nics=tuple(nics) if len(nics) == len(domain.nics) else (),
        firmware=domain.firmware,
        display=any(device.display for device in domain.devices),
        pin_cpus=bool(domain.pins),
        numa=NumaPolicy.PREFER if domain.numa_node is None else NumaPolicy.REQUIRE,
        hugepage_kib=default_hugepage_kib if domain.default_pages else domain.hugepage_kib,
    )


def _reasons(domain: Described) -> Iterator[str]:
    if domain.kind not in {"kvm", "qemu"}:
        yield f"it is a domain of {domain.kind or 'an unknown kind'}, not of QEMU"
    if domain.arguments:
        yield "it passes its own QEMU arguments, which may use devices that vgpumgr does not see"
    if domain.password:
        yield "its console has a password, which libvirt does not reveal: it would be lost"
