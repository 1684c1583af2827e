"""Classes of hosts: hosts of a class are one pool to a plan."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from math import frexp

from vgpumgr.model.placement import GpuSupply, HostSupply
from vgpumgr.placement.matrix.hosts import host_class

MOST_CLASSES = 48


def classes_of(hosts: Sequence[HostSupply]) -> tuple[int, ...]:
    """The class of each host, numbered as they come up.

    Hosts of a class are built alike. Where that makes too many classes, sizes that are nearly
    equal count as equal, then labels and networks are looked past, then sizes too.
    """
    boards = _Boards()
    rough: tuple[Callable[[HostSupply], Hashable], ...] = (
        lambda host: (_size(host), boards.of(host), host_class(host)),
        lambda host: (*map(_roughly, _size(host)), boards.of(host), host_class(host)),
        lambda host: (*map(_roughly, _size(host)), boards.of(host)),
        boards.of,
    )
    for key in rough:
        numbers: dict[Hashable, int] = {}
        found = tuple(numbers.setdefault(key(host), len(numbers)) for host in hosts)
        if len(numbers) <= MOST_CLASSES:
            return found
    return found


def _size(host: HostSupply) -> tuple[int, int]:
    return host.vcpus or host.free_vcpus, host.memory_mib or host.free_memory_mib


def _roughly(number: int) -> tuple[int, int]:
    """Three significant bits."""
    mantissa, exponent = frexp(number)
    return round(mantissa * 8), exponent


class _Boards:
    """What a host's GPUs are, without what lies on them. Offers shared by GPUs hash once."""

    def __init__(self) -> None:
        self._offers: dict[int, Hashable] = {}
        self._known: dict[Hashable, int] = {}

    def of(self, host: HostSupply) -> Hashable:
        return tuple(sorted(self._number(gpu) for gpu in host.gpus))

    def _number(self, gpu: GpuSupply) -> int:
        offers = self._offers.get(id(gpu.offers))
        if offers is None:
            offers = self._offers[id(gpu.offers)] = tuple(
                (offer.profile, offer.type_id, offer.units) for offer in gpu.offers
            )
        key = gpu.model, gpu.units, gpu.same_size, gpu.mixed_size, offers
        return self._known.setdefault(key, len(self._known))
