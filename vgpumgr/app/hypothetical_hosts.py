"""Hypothetical hosts, for a purchase under consideration: probed on a simulated fleet."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from contextlib import closing
from dataclasses import replace
from difflib import get_close_matches
from itertools import count as count_from

from vgpumgr import catalog
from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.engine.whatif.hypothetical_hosts import AddedHosts, hosts_from_probes, hosts_like
from vgpumgr.model.errors import UsageError
from vgpumgr.model.host import HostFacts, HostRecord
from vgpumgr.model.sim_fleet import SimBoard, SimFleet, SimHost

MOST = 1000
_COUNTED = re.compile(r"(?P<what>.+?)\s*[x×*]\s*(?P<count>[1-9]\d{0,3})")
_MOST_GPUS = 16


def host_by_words(text: str, view: LedgerView, taken: Collection[str] = ()) -> AddedHosts:
    """``HOST×N``: hosts like that one, empty; ``BOARD×N``: a host, ``new-1``…, with N of them.

    Without a count one. No new host has a name that is ``taken``. UsageError where it is neither.
    """
    found = _COUNTED.fullmatch(text)
    for what, count in ((text, 1), *([(found["what"], int(found["count"]))] if found else [])):
        if count <= MOST and any(host.name == what and host.facts for host in view.hosts):
            return hosts_like(view, what, count, taken)
        board = _board(what)
        if board and count <= _MOST_GPUS:
            known = {*(host.name for host in view.hosts), *taken}
            name = next(each for n in count_from(1) if (each := f"new-{n}") not in known)
            return _built(_host(name, board, count))
    what = found["what"] if found else text
    near = get_close_matches(what, [*(host.name for host in view.hosts), *_boards()], 1)
    limits = f"a count is at most {MOST} for hosts, {_MOST_GPUS} for GPUs of a board"
    raise UsageError(
        f"--add-host {text}: no host that was ever probed, no board, and no file",
        why="; ".join([*(f"did you mean {each}?" for each in near), limits]),
        next="write HOST×N, BOARD×N (vgpumgr gpu list), or a YAML file with kind: Fleet",
    )


def hosts_of_fleets(fleets: Sequence[SimFleet]) -> list[AddedHosts]:
    """Each host of these fleets by itself."""
    hosts = [host for fleet in fleets for host in fleet.hosts]
    return [_built(host) for host in hosts]


def _built(host: SimHost) -> AddedHosts:
    """The host, also in each way in which a module option of its driver makes VFs."""
    found = hosts_from_probes(probed(SimFleet(name="supposed", hosts=(host,))))
    if len(host.boards) != 1 or host.boards[0].vfs:
        return found
    [boards] = host.boards
    plain = catalog.sriov_board(boards.board)
    if plain is None or plain.numvfs_writable:
        return found
    others = (replace(host, boards=(replace(boards, vfs=n),)) for n in plain.allowed_vf_counts)
    ways = [
        replace(option, text=f"with {other.boards[0].vfs} VFs per GPU, an option of {plain.driver}")
        for other in others
        for option in hosts_from_probes(probed(SimFleet(name="supposed", hosts=(other,)))).options[
            :1
        ]
    ]
    return AddedHosts(options=(*found.options, *ways))


def probed(fleet: SimFleet) -> list[HostFacts]:
    """What a first probe of its hosts shows."""
    from vgpumgr.sim.in_process import InProcessHosts

    records = [HostRecord(name=host.name, address=f"sim://{host.name}") for host in fleet.hosts]
    with closing(InProcessHosts(fleet)) as hosts:
        return [hosts.open(record).probe() for record in records]


def _board(key: str) -> str:
    """The catalogue's spelling of a board that can be simulated; empty for none."""
    return next((each for each in _boards() if each.casefold() == key.casefold()), "")


def _boards() -> list[str]:
    plain = [board.key for board in catalog.sriov_boards() if board.driver]
    return [*(board.key for board in catalog.boards()), *plain]


def _host(name: str, board: str, count: int) -> SimHost:
    """With its NVSwitch board where so many of them make one full."""
    host = SimHost(name=name, boards=(SimBoard(board=board, count=count),))
    known = catalog.board(board)
    fabrics = [each for each in catalog.fabric_boards() if each.gpus == count]
    fits = (each.key for each in fabrics if known and catalog.fits_fabric(known.fabric, each.key))
    return replace(host, fabric=next(fits, ""))
