"""A ledger and a way to hosts whose process may die at each of their points."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tests.faults.points import AFTER, BEFORE, EFFECT, Fuse, reserved
from vgpumgr.app.fence_programs import ProgramResult
from vgpumgr.hosts.helper.helper_call import LEAVES_TRACES
from vgpumgr.model.ledger import Ledger
from vgpumgr.model.operation import Reservation, Transition
from vgpumgr.sim.transport import fleet_socket
from vgpumgr.sim.transport.fleet_socket import Channel
from vgpumgr.sim.transport.libvirt_proxies import READS as LIBVIRT_READS

# Whom requests are for that are not for a host, but for the process that is the hosts.
CONTROL = "faults"
# Everything else that a ledger can be asked for is taken for durable.
READS = frozenset(
    {
        "fleet_id",
        "epoch",
        "fresh_epoch",
        "hosts",
        "host",
        "namesakes",
        "gpus",
        "refusals",
        "vms",
        "vms_ever",
        "vms_with_guests",
        "vm",
        "allocations",
        "requests",
        "holdings",
        "usage_history",
        "price_books",
        "power_budgets",
        "power_caps",
        "layouts",
        "queue",
        "quotas",
        "licences",
        "notifications",
        "calendars",
        "profile_disks",
        "secrets",
        "flavours",
        "backup_targets",
        "vm_backups",
        "secret_references",
        "images",
        "pools",
        "pool",
        "desktops",
        "pool_sessions",
        "pool_asks",
        "bookings",
        "logoff_moves",
        "tickets",
        "ticket_of",
        "api_request",
        "version",
        "request_of",
        "role_bindings",
        "api_tokens",
        "api_token",
        "login_sessions",
        "login_session",
        "last_login",
        "within",
        "is_claimed",
        "operations",
        "operation",
        "tasks",
        "audit",
        "webhooks",
        "audit_after",
        "trail_since",
        "supply_version",
        "trail_origin",
        "newest_note",
        "sealed_records",
        "check_trail",
        "looks_kept_up",
        "deleted_vms",
        "is_worked_on",
        "remembered",
        "spoken_epoch",
        "frozen",
        "hear",
        "release",
        "close",
    }
)


class MortalLedger:
    """Fulfils ``ports.Ledger`` over another one."""

    def __init__(self, ledger: Ledger, fuse: Fuse) -> None:
        self._ledger = ledger
        self._fuse = fuse

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._ledger, name)
        return found if name in READS or not callable(found) else partial(self._do, name, found)

    def _do(self, name: str, write: Callable[..., Any], *args: Any, **named: Any) -> Any:
        what = self._words(name, args)
        self._fuse.pass_(BEFORE, *what)
        answer = write(*args, **named)
        if name == "record":
            self._fuse.follow(args)
        if name == "reserve":
            self._fuse.follow(args[0].moved)
        self._fuse.pass_(AFTER, *what)
        return answer

    def _words(self, name: str, args: tuple[Any, ...]) -> tuple[str, ...]:
        if name == "reserve":
            start: Reservation = args[0]
            self._fuse.learn(start.tasks)
            return (reserved(start), *map(self._transition, start.moved))
        if name == "record":
            return tuple(self._transition(each) for each in args)
        return (name.replace("_", " "),)

    def _transition(self, transition: Transition) -> str:
        if not self._fuse.knows(transition):
            for operation in self._ledger.operations():
                self._fuse.learn(self._ledger.tasks(operation.id))
        return self._fuse.words(transition)


class MortalChannel(Channel):
    """The way to simulated hosts: dies after a call that changed something, its answer unused."""

    def __init__(self, state: Path, timeout_s: float, fuse: Fuse) -> None:
        super().__init__(state, timeout_s)
        self._fuse = fuse

    def _ask(self, connection: Any, request: dict[str, Any]) -> dict[str, Any]:
        answer = super()._ask(connection, request)
        doing = change(request)
        if doing:
            self._fuse.pass_(EFFECT, f"{self._fuse.acting}: {doing}".removeprefix(": "))
        return answer


class MortalSwitch:
    """The power switch of the first host, as the programs of its ``fence:`` block."""

    def __init__(self, state: Path, fuse: Fuse) -> None:
        self._channel = Channel(state, 10.0)
        self._fuse = fuse

    def run(self, argv: Sequence[str], _: float) -> ProgramResult:
        """``off`` or ``status``: what it prints."""
        if "off" in argv:
            self._channel.call("h1", CONTROL, "inject", {"words": ["off"]})
            self._fuse.pass_(EFFECT, "power off")
        powered = self._channel.call("h1", CONTROL, "power", {})
        return ProgramResult(0, "on" if powered else "off")


def change(request: dict[str, Any]) -> str:
    """What a request changes on its host: ``helper mdev_create``; empty for a look."""
    target, method = request["target"], request["method"]
    if target == CONTROL:
        return ""
    if target == "helper":
        verb = str(fleet_socket._PLAIN.decode(request["args"]["request"])["verb"])
        return f"helper {verb}" if verb in LEAVES_TRACES else ""
    return "" if method in LIBVIRT_READS else f"{target} {method}"
