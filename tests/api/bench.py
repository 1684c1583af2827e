"""A simulated fleet with VMs for the trials of the API, on a ledger of either kind."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from tests import pgserver
from tests.e2e.support import Cli, host, new_cli, vm
from vgpumgr.model.history import AuditRecord
from vgpumgr.store import open_ledger
from vgpumgr.store.sql_ledger import SqlLedger

GPUS_A_HOST, VMS_A_GPU = 4, 4


def vm_names(vms: int) -> list[str]:
    """What they are called."""
    return [f"v{number:02}" for number in range(vms)]


@contextmanager
def fleet(vms: int, ledger: str = "") -> Iterator[Cli]:
    """VMs that run on simulated hosts; ``ledger``: an address, where it is no file."""
    settings = {"VGPUMGR_LEDGER": ledger} if ledger else {}
    with mock.patch.dict(os.environ, settings), new_cli() as cli:
        hosts = -(-vms // (GPUS_A_HOST * VMS_A_GPU))
        cli.sim_up(*(host(f"h{n}", ("T4", GPUS_A_HOST)) for n in range(hosts)))
        cli.ok("apply", "-f", cli.documents(*(vm(name, "T4-4Q") for name in vm_names(vms))))
        yield cli


@contextmanager
def opened(cli: Cli) -> Iterator[SqlLedger]:
    """The ledger of the fleet."""
    where: str | Path = os.environ.get("VGPUMGR_LEDGER") or cli.state / "ledger.sqlite"
    with closing(open_ledger(where)) as ledger:
        yield ledger


def whole_trail(ledger: SqlLedger) -> list[AuditRecord]:
    """Every record of the trail, in order."""
    found: list[AuditRecord] = []
    while page := ledger.audit_after(found[-1].seq if found else 0, 1000):
        found += page
    return found


@contextmanager
def postgresql() -> Iterator[str]:
    """The address of an empty database of a server of our own; empty where there is none."""
    if pgserver.binaries() is None:
        yield ""
        return
    with pgserver.running() as server:
        yield server.database()


def report(trial: Callable[[argparse.Namespace], dict[str, Any]], asked: argparse.Namespace) -> int:
    """Print the figures of a trial; the exit status: 1 where ``wrong`` holds anything."""
    figures = trial(asked)
    print(json.dumps(figures, indent=1), flush=True)
    return int(bool(figures["wrong"]))


def say(text: str) -> None:
    """How far a trial has come, for who waits."""
    print(text, file=sys.stderr, flush=True)
