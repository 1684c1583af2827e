"""Users at work: the sessions on desktops that a stop of the VM would end. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from vgpumgr.engine.inventory.ledger_view import LedgerView, ObservedDomains, observed_domains
from vgpumgr.model.desktop import DesktopRecord, PoolRecord
from vgpumgr.model.ledger import Ledger
from vgpumgr.model.vm import VmRecord, VmState


@dataclass(frozen=True, slots=True, kw_only=True)
class UserAtWork:
    """A user with a session on a desktop that is not known to be off. ``away``: no viewer is
    connected, and open programs go on.
    """

    vm: str
    user: str
    pool: str
    away: bool = False

    @property
    def words(self) -> str:
        """``ada is on it (pool cad)``."""
        how = "has a session on it, disconnected" if self.away else "is on it"
        return f"{self.user} {how} (pool {self.pool})"


def at_work(ledger: Ledger, view: LedgerView) -> Mapping[str, UserAtWork]:
    """Users at work, by the VM's id. An owner that is not logged on is not at work, nor is a user
    of a desktop that was seen to be off; where its host does not answer, a session counts.
    """
    rows = [row for row in ledger.desktops() if row.vm_id and row.desktop.session is not None]
    return dict(_found(rows, ledger.pools(), view)) if rows else {}


def named(users: Collection[UserAtWork], most: int = 5) -> str:
    """``ada on cad-01, bob on cad-02 …``."""
    words = ", ".join(f"{each.user} on {each.vm}" for each in list(users)[:most])
    return f"{words} and {len(users) - most} more" if len(users) > most else words


def _found(
    rows: Iterable[DesktopRecord], pools: Iterable[PoolRecord], view: LedgerView
) -> Iterable[tuple[str, UserAtWork]]:
    names = {pool.id: pool.name for pool in pools}
    vms, seen = {vm.id: vm for vm in view.vms}, observed_domains(view)
    for row in rows:
        vm, session = vms.get(row.vm_id), row.desktop.session
        if vm is not None and session is not None and not _is_off(vm, seen):
            away = session.disconnected is not None
            yield (
                vm.id,
                UserAtWork(vm=vm.name, user=session.user, pool=names.get(row.pool, "?"), away=away),
            )


def _is_off(vm: VmRecord, seen: ObservedDomains) -> bool:
    if vm.state is VmState.SHELVED:
        return True
    return vm.host in seen.hosts and (vm.host, vm.name) not in seen.running
