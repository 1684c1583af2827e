"""What is remembered beside what is worked out anew: supplies, and which hosts the trail names."""

from __future__ import annotations

from collections.abc import Iterable

from tests.property.test_supply_memory import anew
from vgpumgr.engine.controller.cycle_context import ChangedHosts
from vgpumgr.engine.inventory.host_supply import build_fleet
from vgpumgr.engine.inventory.ledger_view import LedgerView, read_view
from vgpumgr.model.host import HostRecord
from vgpumgr.model.ledger import Ledger

# What a look finds, and not what the ledger decides.
_LOOKS = {"facts", "observed_at", "last_error", "generation"}
Gist = tuple[object, ...]


class Remembered:
    """Follows one ledger: a host of which the ledger says something else than at the last check was
    named by the trail, and the remembered supply of the fleet is what a new one would be.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._changed = ChangedHosts(ledger, lambda: 0.0)
        self._gists = gists(ledger, read_view(ledger))

    def check(self, ledger: Ledger) -> None:
        """After anything that may have happened."""
        view, before, count = read_view(ledger), self._gists, self._changed.count
        self._changed.read()
        self._gists = gists(ledger, view)
        for host, gist in self._gists.items():
            told = self._changed.since(host, count) or host not in before
            assert told or gist == before[host], f"the trail does not name {host}: {gist}"
        assert build_fleet(view) == anew(view)


def gists(ledger: Ledger, view: LedgerView) -> dict[str, Gist]:
    """By host all that a reconcile cycle compares it with, or has to end there."""
    open_ = [each.id for each in ledger.operations(open_only=True)]
    tasks = [task for each in open_ for task in ledger.tasks(each)]
    return {
        host.name: (
            _record(host),
            _on(host, view.vms),
            _on(host, view.allocations),
            _on(host, view.layouts),
            tuple((gpu.id, gpu.state, gpu.state_why) for gpu in view.gpus if gpu.host == host.name),
            tuple(task.id for task in tasks if host.name in task.hosts),
        )
        for host in view.hosts
    }


def _record(host: HostRecord) -> Gist:
    return tuple(
        (name, getattr(host, name)) for name in host.__dataclass_fields__ if name not in _LOOKS
    )


def _on(host: HostRecord, rows: Iterable[object]) -> Gist:
    return tuple(row for row in rows if getattr(row, "host", "") == host.name)
