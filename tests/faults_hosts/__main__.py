"""Namespace hosts under faults (see README.md). Ends with 1 when an invariant was violated."""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests import nshosts, pgserver
from tests.faults_hosts.faults import FAULTS, HUNG
from tests.faults_hosts.figures import figures
from tests.faults_hosts.fleet import Fleet
from tests.faults_hosts.record import CONTROLLER, STORE
from tests.faults_hosts.trial import KINDS, Trial, say
from tests.pgserver import PgServer

OUTPUT = Path(__file__).parents[2] / "build" / "faults-hosts.json"
# Of the minutes that a store has: hosts that hang, and quiet windows; faults on hosts.
WINDOWS, ROUNDS = 0.4, 0.35
SECONDS_PER_KILL = 45
# CPU seconds of a command, all that it does on its host included.
COMMAND_S = 1.6


def main() -> int:
    """Parse, run, write, and say."""
    options = _options()
    if why := nshosts.missing():
        print(f"no namespace hosts here: {why}", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background, too
    found = run(options)
    options.output.parent.mkdir(exist_ok=True)
    options.output.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(_short(found), indent=1))
    return 1 if _bad(found) else 0


def run(options: argparse.Namespace) -> dict[str, Any]:
    """A trial per store on one fleet."""
    begin, load = time.monotonic(), os.getloadavg()
    trials: dict[str, Any] = {}
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="faults-hosts-"))
        fleet = Fleet(options.hosts, Path(folder))
        stack.callback(fleet.close)
        up_s = round(time.monotonic() - begin, 1)
        say(f"{options.hosts} hosts are up after {up_s} s, seed {options.seed}")
        for store in options.stores:
            with ExitStack() as served:
                server = served.enter_context(pgserver.running()) if store != "sqlite" else None
                ledger = server.database() if server else f"{folder}/ledger.sqlite"
                trials[store] = _trial(options, fleet, ledger, server)
    return {
        "seed": options.seed,
        "hosts": options.hosts,
        "hosts_up_s": up_s,
        "seconds": round(time.monotonic() - begin, 1),
        "load_before": [round(each, 2) for each in load],
        "load_after": [round(each, 2) for each in os.getloadavg()],
        "stores": trials,
    }


def _trial(
    options: argparse.Namespace, fleet: Fleet, ledger: str, server: PgServer | None
) -> dict[str, Any]:
    think_s = options.hosts * COMMAND_S / options.cores
    trial = Trial(fleet, ledger, options.seed, options.only, think_s)
    seconds = options.minutes * 60 / len(options.stores)
    try:
        trial.begin()
        if trial.wants(HUNG.name):
            trial.windows(seconds * (1 if options.only else WINDOWS) / 4)
            trial.check("hung hosts")
        if any(trial.wants(fault.name) for fault in FAULTS):
            trial.rounds(seconds * (1 if options.only else ROUNDS))
            trial.check("faults")
        if trial.wants(CONTROLLER):
            share = 1 if options.only else 1 - WINDOWS - ROUNDS
            trial.kills(max(1, round(seconds * share / SECONDS_PER_KILL)))
            trial.check("killed controllers")
        if server is not None and (trial.wants(STORE) or trial.wants("postgres-pause")):
            trial.store_faults(server, kills=3)
            trial.check("PostgreSQL's faults")
        trial.end()
    finally:
        trial.controller.kill()
        if options.keep:
            options.keep.mkdir(parents=True, exist_ok=True)
            for file in fleet.folder.glob("*.jsonl"):
                (options.keep / file.name).write_text(file.read_text())
    found = figures(trial.controller.events(), trial.record)
    return found | {"restarts_after_lost_claims": trial.controller.restarts}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make faults-hosts ARGS=", description=__doc__)
    parser.add_argument("--hosts", type=int, default=50)
    parser.add_argument("--minutes", type=float, default=12, help="under load, all stores together")
    parser.add_argument("--cores", type=float, default=1.2, help="what commands may take of them")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--only", choices=KINDS, default="", metavar="FAULT", help=", ".join(KINDS))
    parser.add_argument("--stores", nargs="+", default=["sqlite", "postgresql"],
                        choices=["sqlite", "postgresql"])  # fmt: skip
    parser.add_argument("--output", type=Path, default=OUTPUT)
    parser.add_argument("--keep", type=Path, help="a folder for the controllers' logs")
    return parser.parse_args()


def _bad(found: dict[str, Any]) -> bool:
    return any(
        each[key]
        for each in found["stores"].values()
        for key in ("violations", "unresolved", "needs_operator", "tracebacks")
    )


def _short(found: dict[str, Any]) -> dict[str, Any]:
    """Without the long lists."""
    stores = {
        name: {key: len(value) if isinstance(value, list) else value for key, value in each.items()}
        for name, each in found["stores"].items()
    }
    return {**found, "stores": stores}


if __name__ == "__main__":
    sys.exit(main())
