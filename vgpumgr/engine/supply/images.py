"""Which hosts have a copy of which image."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from vgpumgr.engine.view import LedgerView

Images = Mapping[str, tuple[str, ...]]


def kept_images(view: LedgerView) -> Callable[[str], Images]:
    """By host: the volume of every image in the ledger, with the storage pools that have it."""
    nowhere: Images = {image.volume: () for image in view.images}
    found: dict[str, Images] = {}
    for image in view.images:
        for host in {copy.host for copy in image.copies}:
            found[host] = {**found.get(host, nowhere), image.volume: image.pools(host)}
    return lambda host: found.get(host, nowhere)
