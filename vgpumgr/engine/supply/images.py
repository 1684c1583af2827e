"""Which hosts have a copy of which image."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from vgpumgr.engine.view import LedgerView
from vgpumgr.model.host import HostRecord

Images = Mapping[str, tuple[str, ...]]


def kept_images(view: LedgerView) -> Callable[[str], Images]:
    """By host: the volume of every image in the ledger, with the storage pools that have it; of a
    bare volume that was looked for those that may have it.
    """
    nowhere: Images = {image.volume: () for image in view.images}
    found: dict[str, Images] = {}
    for image in view.images:
        for host in {copy.host for copy in image.copies}:
            found[host] = {**found.get(host, nowhere), image.volume: image.pools(host)}
    pools = {host.name: _pools(host) for host in view.hosts} if view.absent else {}
    for host, pool, volume in sorted(view.absent):
        here = found.get(host, nowhere)
        left = here.get(volume, pools.get(host, ()))
        found[host] = {**here, volume: tuple(each for each in left if each != pool)}
    return lambda host: found.get(host, nowhere)


def _pools(host: HostRecord) -> tuple[str, ...]:
    return tuple(pool.name for pool in host.facts.pools) if host.facts else ()
