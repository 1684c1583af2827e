"""One PCI function: what it is bound to, and moving it to another driver."""

from __future__ import annotations

from vgpumgr.helper import errors, sysfs
from vgpumgr.helper.errors import HelperError
from vgpumgr.helper.system import System

DRIVERS = "/sys/bus/pci/drivers"
VFIO = "vfio-pci"

# PCI classes: 03 display controllers; 1200 processing accelerators.
GPU_CLASSES = ("03", "1200")
# What may share a slot with such a function and belongs to it: HD audio, USB, its type-C port.
SIBLING_CLASSES = ("0403", "0c03", "0c80")

_BRIDGE = "0604"
_VF_LINK = "virtfn"
# What a byte that is no text becomes; a function that fell off the bus reads 0xff everywhere.
_NO_TEXT = "\ufffd"
_PROBE = "/sys/bus/pci/drivers_probe"


def path(address: str) -> str:
    """The function's folder."""
    return f"{sysfs.PCI_DEVICES}/{address}"


def unit_of(address: str) -> str:
    """The claim's name for a function."""
    return f"pci-{address}"


def exists(system: System, address: str) -> bool:
    """Whether the function is on the bus."""
    return system.exists(path(address))


def driver(system: System, address: str) -> str | None:
    """The driver it is bound to, or None."""
    return sysfs.target(system, f"{path(address)}/driver")


def current_override(system: System, address: str) -> str:
    """Its driver_override; empty when there is none (the kernel prints ``(null)``)."""
    text = sysfs.optional_text(system, f"{path(address)}/driver_override")
    return "" if text in (None, "(null)") else str(text)


def lost(system: System, address: str) -> bool:
    """Whether its configuration space reads all ones: it fell off the bus."""
    config = f"{path(address)}/config"
    return system.exists(config) and set(system.read(config)) == {_NO_TEXT}


def numbered_vfs(system: System, address: str) -> list[tuple[int, str]]:
    """The VFs that are on, by the number of their ``virtfn`` link, with their addresses."""
    folder = path(address)
    names = [name for name in system.list(folder) if name.startswith(_VF_LINK)]
    numbers = sorted(int(name[len(_VF_LINK) :]) for name in names)
    links = ((number, sysfs.target(system, f"{folder}/{_VF_LINK}{number}")) for number in numbers)
    return [(number, vf) for number, vf in links if vf]


def vfs(system: System, address: str) -> list[str]:
    """The addresses of the VFs that are on."""
    return [vf for _, vf in numbered_vfs(system, address)]


def vf_addresses(system: System, address: str) -> tuple[str, ...]:
    """Where the function's VFs are, or would be if they were on: PCI SR-IOV, routing ids."""
    names = ("sriov_totalvfs", "sriov_offset", "sriov_stride")
    texts = [sysfs.optional_text(system, f"{path(address)}/{name}") for name in names]
    if None in texts:
        return ()
    total, offset, stride = (int(text or 0) for text in texts)
    first = _routing_id(address) + offset
    domain = address.split(":", maxsplit=1)[0]
    return tuple(_address(domain, first + number * stride) for number in range(total))


def vf_count(system: System, address: str) -> int:
    """How many VFs the driver says are on; 0 for a function without SR-IOV."""
    return int(sysfs.optional_text(system, f"{path(address)}/sriov_numvfs") or "0")


def physical(system: System, address: str) -> str | None:
    """The function that a VF belongs to; None when it is no VF."""
    return sysfs.target(system, f"{path(address)}/physfn")


def kind(system: System, address: str) -> str:
    """Its class as six hexadecimal digits: ``030200``."""
    return sysfs.text(system, f"{path(address)}/class").removeprefix("0x")


def is_gpu(system: System, address: str) -> bool:
    """Whether it is a display controller, a processing accelerator or a VF of one."""
    board = physical(system, address) or address
    return kind(system, board).startswith(GPU_CLASSES)


def require_gpu(system: System, address: str) -> None:
    """Refuse everything else: disks, network cards, bridges are never ours to touch."""
    if not is_gpu(system, address):
        why = (
            f"its PCI class is {kind(system, address)}; this program changes display controllers "
            "(03), processing accelerators (1200) and their VFs, and nothing else"
        )
        raise HelperError(errors.REFUSED, f"{address} is not a GPU", why)


def require_sibling(system: System, address: str, gpu: str) -> None:
    """Refuse what is no part of a GPU's own board: another function of its slot, of a few kinds."""
    same_slot = address.rpartition(".")[0] == gpu.rpartition(".")[0]
    if not same_slot or not kind(system, address).startswith(SIBLING_CLASSES):
        why = (
            f"its PCI class is {kind(system, address)}; HD audio (0403), USB (0c03) and type-C "
            f"(0c80) functions in the slot of {gpu} go with it, and nothing else"
        )
        raise HelperError(errors.REFUSED, f"{address} does not belong to {gpu}", why)


def group_members(system: System, address: str) -> tuple[str, ...]:
    """Every function of its IOMMU group, itself included; none when it is in no group."""
    folder = f"{path(address)}/iommu_group/devices"
    return tuple(system.list(folder)) if system.exists(folder) else ()


def group_endpoints(system: System, address: str) -> tuple[str, ...]:
    """The group's members without PCI-to-PCI bridges, which VFIO lets stay on their driver."""
    members = group_members(system, address)
    return tuple(each for each in members if not kind(system, each).startswith(_BRIDGE))


def _routing_id(address: str) -> int:
    _, bus, rest = address.split(":")
    slot, function = rest.split(".")
    return int(bus, 16) << 8 | int(slot, 16) << 3 | int(function, 16)


def _address(domain: str, routing_id: int) -> str:
    return f"{domain}:{routing_id >> 8:02x}:{routing_id >> 3 & 0x1F:02x}.{routing_id & 7}"


def move(system: System, address: str, wanted: str | None, *, override: str) -> None:
    """Set driver_override, then have the function on ``wanted`` (None: on no driver); read back.

    Nothing is unbound when it is there already. An empty ``override`` clears it.
    """
    refused = f"{address} could not be given to {wanted or 'no driver'}"
    if override != current_override(system, address):
        sysfs.effect(system, f"{path(address)}/driver_override", f"{override}\n", refused)
    now = driver(system, address)
    if now == wanted:
        return
    if now is not None:
        sysfs.effect(system, f"{DRIVERS}/{now}/unbind", address, refused)
    if wanted is not None:
        sysfs.effect(system, _PROBE, address, refused)
    found = driver(system, address)
    if found != wanted:
        raise HelperError(errors.REFUSED, refused, f"it is on {found or 'no driver'} afterwards")
