"""Whether any GPU could ever make what a desktop asks for, and which boards could."""

from __future__ import annotations

from collections.abc import Iterator

from vgpumgr import catalog
from vgpumgr.model.gpu import PASSTHROUGH_PROFILE
from vgpumgr.model.placement import Fleet, GpuSupply
from vgpumgr.model.pool import PoolSpec

_SHOWN = 8


def unmakeable(pool: PoolSpec, fleet: Fleet) -> str:
    """Why no GPU of the fleet can ever make the pool's profile; empty: one can.

    What a layout keeps a GPU from making it could make; parts by size are not judged.
    """
    for part in pool.desktop.gpus:
        models = {each.casefold() for each in part.any_of}
        able = [
            gpu
            for host in fleet.hosts
            for gpu in host.gpus
            if _makes(gpu, part.profile) and (not models or gpu.model.casefold() in models)
        ]
        if part.profile and not able:
            return f"no GPU of the fleet provides {part.profile}{_could(part.profile)}"
    return ""


def _makes(gpu: GpuSupply, profile: str) -> bool:
    offered = any(profile in (offer.profile, *offer.names) for offer in gpu.offers)
    return offered or profile in gpu.could


def _could(profile: str) -> str:
    """``; T4 could``, by the catalogue."""
    boards = sorted(_boards(profile))
    if not boards:
        return ""
    more = f" and {len(boards) - _SHOWN} more" if len(boards) > _SHOWN else ""
    return f"; {', '.join(boards[:_SHOWN])}{more} could"


def _boards(profile: str) -> Iterator[str]:
    if vf := catalog.parse_vf_profile(profile):
        yield vf[0]
    for board in catalog.boards():
        mig = catalog.mig(board)
        instances = mig.profiles if mig is not None else ()
        names = {name for each in instances for name in (each.name, *each.earlier)}
        names |= {each.profile for each in board.types}
        if profile in names or profile == PASSTHROUGH_PROFILE:
            yield board.key
