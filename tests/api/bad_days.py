"""Bad days of a server: clients, ledgers and surroundings that are not as they should be.

``python -m tests.api.bad_days [--only NAME]``: each case of ``bad_requests``, ``bad_ledgers`` and
``bad_surroundings`` on one fleet, while `serve` works on it, which must not notice. Every answer
must be a problem document, and everything must work afterwards.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPException
from typing import Any

from tests.api.bad_ledgers import ledger_cases, other_ledger_cases, unread
from tests.api.bad_requests import client_cases
from tests.api.bad_surroundings import surrounding_cases
from tests.api.bench import fleet, opened, report, say
from tests.apiserver import ApiServer, serving_api
from tests.e2e.support import Cli, finish

OLDEST_LOOK_S = 30.0


class Days:
    """Carries out cases one after the other, and keeps what was wrong."""

    def __init__(self, server: ApiServer, only: str) -> None:
        self.wrong: list[str] = []
        self.took: dict[str, float] = {}
        self._server = server
        self._only = only

    def live(self, cases: dict[str, Callable[[], list[str]]]) -> None:
        """Those that are asked for; the server must answer after each."""
        for name, case in cases.items():
            if self._only not in name:
                continue
            began = time.monotonic()
            try:
                found = case() + unread(self._server)
            except (AssertionError, OSError, HTTPException, ValueError) as error:
                found = [f"{type(error).__name__}: {error}"]
            self.took[name] = round(time.monotonic() - began, 1)
            self.wrong += [f"{name}: {each}" for each in found]
            say(f"{name}: {self.took[name]} s, {found or 'all right'}")


@contextmanager
def served(cli: Cli, wrong: list[str]) -> Iterator[None]:
    """`serve` works meanwhile, and must not notice."""
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    serve = cli.process("serve", "--interval", "2", **silent)
    try:
        yield
        time.sleep(5)
        if serve.poll() is not None:
            wrong.append("`serve` has ended")
        for each in cli.items("host", "list"):
            if each["seen_s"] is None or each["seen_s"] > OLDEST_LOOK_S:
                wrong.append(f"`serve` has not looked at {each['name']} for {each['seen_s']} s")
    finally:
        serve.send_signal(signal.SIGTERM)
        finish(serve)


def trial(asked: argparse.Namespace) -> dict[str, Any]:
    """Every case; what was wrong in each, and how long it took."""
    with fleet(2) as cli, opened(cli) as ledger, serving_api(cli) as server:
        days = Days(server, asked.only)
        with served(cli, days.wrong):
            days.live(client_cases(server, ledger, whole=not asked.quick))
            days.live(surrounding_cases(cli))
            days.live(ledger_cases(cli, server))
        days.live(other_ledger_cases(cli, server, ledger))
    return {"seconds": days.took, "wrong": days.wrong[:20]}


def main() -> int:
    """Exit status 1 where anything did not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="the cases whose names hold this")
    parser.add_argument("--quick", action="store_true", help="without those that wait for limits")
    return report(trial, parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
