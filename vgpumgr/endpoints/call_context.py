"""What an endpoint works with: the app, and what is told while it works."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vgpumgr.access.permission import Permission
from vgpumgr.model.errors import AccessRefused
from vgpumgr.model.role_binding import ALL_TENANTS, NO_TENANT, Scope

if TYPE_CHECKING:
    from vgpumgr.app import App
    from vgpumgr.app.access_control import AccessControl
    from vgpumgr.engine.operations.operation_outcome import VmOutcome
    from vgpumgr.engine.use_cases import Engine
    from vgpumgr.identity.established import Established
    from vgpumgr.model.scoped_reads import ScopedReads


def _silent(_: object) -> None:
    """No listener."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallContext:
    """The app with its ledger and engine; ``scope`` are the tenants that the caller may see.
    ``begun`` hears of an operation (its id) once it is reserved, ``progress`` of the end of every
    VM's task, ``tell`` of the progress of a long one, ``planned`` of a plan (an item) before it is
    carried out; all are called from threads. ``also`` are the scopes of the endpoint's other
    permissions; None at the shell, where every permission is held.
    """

    app: App
    scope: Scope = ALL_TENANTS
    also: Mapping[Permission, Scope] | None = None
    caller: Established | None = None
    begun: Callable[[str], None] = field(default=_silent)
    progress: Callable[[VmOutcome], None] = field(default=_silent)
    tell: Callable[[str], None] = field(default=_silent)
    planned: Callable[[Mapping[str, Any]], None] = field(default=_silent)

    @property
    def access(self) -> AccessControl:
        """Access control, over a ledger that is made where there is none."""
        return self.app.access

    @property
    def shown_access(self) -> AccessControl:
        """The same for reading: without a ledger there is nothing to show."""
        return self.app.shown_access

    @property
    def who(self) -> Established:
        """The caller; at the shell the account of this process."""
        return self.caller or self.app.shown_access.at_shell()

    @property
    def reads(self) -> ScopedReads:
        """The ledger as the caller may see it."""
        return self.app.ledger.within(self.scope)

    def require_vms(self, names: Iterable[str]) -> None:
        """NotFound where one of these is no VM that the caller may see."""
        if not self.scope.is_all:
            reads = self.reads
            for name in names:
                reads.vm(name)

    def require_pool(self, name: str) -> None:
        """NotFound where this is no pool that the caller may see."""
        if not self.scope.is_all:
            self.reads.pool(name)

    def scope_of(self, permission: Permission) -> Scope:
        """Where the caller holds one of the endpoint's other permissions."""
        return ALL_TENANTS if self.also is None else self.also.get(permission, NO_TENANT)

    def require_everywhere(self, permission: Permission, what: str) -> None:
        """AccessRefused unless the permission is held in all tenants; ``what`` needs it."""
        if not self.scope_of(permission).is_all:
            raise AccessRefused(
                f"{what} needs {permission} in all tenants",
                next="vgpumgr auth whoami; an administrator can grant more",
            )

    @contextmanager
    def changing(self) -> Iterator[Engine]:
        """The engine, for a change. The hosts that it touched and that answered are probed
        afterwards, so that lists show what the change did.
        """
        from vgpumgr.engine.operations.task_run import CUT

        ended: list[VmOutcome] = []
        lock = threading.Lock()

        def report(outcome: VmOutcome) -> None:
            with lock:
                ended.append(outcome)
                self.progress(outcome)

        app = self.app
        app.begun, app.progress, app.tell = self.begun, report, self.tell
        try:
            yield app.engine
        finally:
            app.begun, app.progress, app.tell = _silent, _silent, _silent
        touched = {host for outcome in ended for host in outcome.hosts} - {
            host for outcome in ended if isinstance(outcome.error, CUT) for host in outcome.hosts
        }
        if touched and not app.stop.is_set():
            app.engine.refresh(touched)
