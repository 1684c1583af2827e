"""The VFs of a host's NICs as capacity: which ones a VM gets, the nearest to its GPUs first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from vgpumgr.model.supply import FreeVf, HostSupply, NicSupply

FAR = 4
"""The distance of what has nothing in common, or of which nothing is known."""


class NicStock:
    """What is free of the host's NICs; VMs take it, and give it back."""

    __slots__ = ("_free", "nics")

    def __init__(self, supply: HostSupply) -> None:
        self.nics = supply.nics
        self._free = {nic.name: list(nic.free) for nic in supply.nics}

    def free(self, nic: NicSupply) -> list[FreeVf]:
        """Its free VFs, in the driver's order; none of a NIC that may not be given."""
        return [] if nic.blocked else self._free[nic.name]

    def change(self, functions: Iterable[str], *, taken: bool) -> None:
        """A VM has taken these VFs, by their addresses; or left them."""
        names = frozenset(functions)
        if not names:
            return
        for nic in self.nics:
            left = {vf for vf in self._free[nic.name] if vf.address not in names}
            back = {vf for vf in nic.vfs if vf.address in names}
            kept = left if taken else left | back
            self._free[nic.name] = sorted(kept, key=lambda vf: vf.number)


def candidates(nics: Iterable[NicSupply], wanted: tuple[str, str]) -> list[NicSupply]:
    """The NICs of that interface, or joined to that network."""
    physical, network = wanted
    if physical:
        return [nic for nic in nics if nic.name == physical]
    return [nic for nic in nics if network in nic.networks]


def chosen(
    stock: NicStock, wanted: Sequence[tuple[str, str]], near: Sequence[tuple[str, int | None]]
) -> tuple[NicSupply, ...] | None:
    """A NIC with a free VF for each that is wanted, in that order; None where there are not enough.

    ``near`` are the places of the VM's GPUs (folder in sysfs, NUMA node): the n-th NIC is the
    nearest to the n-th of them, and begins from the first where there are more NICs. Of NICs that
    are as near that one comes first of which the VM has fewest VFs, then the one with the most
    free.
    """
    found: list[NicSupply | None] = [None] * len(wanted)

    def held(nic: NicSupply) -> list[int]:
        return [number for number, each in enumerate(found) if each is nic]

    def order(number: int) -> list[NicSupply]:
        at = near[number % len(near)] if near else ("", None)
        return sorted(
            candidates(stock.nics, wanted[number]),
            key=lambda nic: (distance(nic, at), len(held(nic)), -len(stock.free(nic))),
        )

    def settle(number: int, tried: set[str]) -> bool:
        """Kuhn's way to match: who is in the way looks for another NIC."""
        for nic in order(number):
            if nic.name in tried:
                continue
            tried.add(nic.name)
            room = len(held(nic)) < len(stock.free(nic))
            if room or any(settle(other, tried) for other in held(nic)):
                found[number] = nic
                return True
        return False

    for number in range(len(wanted)):
        if not settle(number, set()):
            return None
    return tuple(each for each in found if each is not None)


def functions_of(stock: NicStock, nics: Sequence[NicSupply]) -> tuple[str, ...]:
    """The lowest free VFs of these NICs, by their addresses."""
    left = {nic.name: iter(stock.free(nic)) for nic in nics}
    return tuple(next(left[nic.name]).address for nic in nics)


def distance(nic: NicSupply, at: tuple[str, int | None]) -> int:
    """How far a NIC is from a place: 0 below one PCIe switch, 1 below one root port, 2 below one
    host bridge, 3 on one NUMA node, else ``FAR``. What is below one switch or root port talks
    without the host's CPU (``nvidia-smi topo -m``: PIX, PXB, PHB, NODE, SYS).
    """
    path, node = at
    if path and nic.path:
        mine, other = _bridges(nic.path), _bridges(path)
        shared = 0
        for one, two in zip(mine, other, strict=False):
            if one != two:
                break
            shared += 1
        if shared:
            return 2 if shared == 1 else 1 if shared == 2 else 0
    known = node is not None and nic.numa_node is not None
    return 3 if known and node == nic.numa_node else FAR


def _bridges(path: str) -> list[str]:
    """``pci0000:40``, the root port, and the switches above a function, the root first."""
    parts = path.split("/")
    return parts[3:-1] if parts[:3] == ["", "sys", "devices"] else []
