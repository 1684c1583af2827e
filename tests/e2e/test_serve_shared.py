"""Several `vgpumgr serve` side by side on one PostgreSQL ledger share the hosts."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.support import Cli, host, new_cli, until
from tests.e2e.test_serve import how_many, killed_apply, open_operations, serving
from tests.pgserver import PgServer


@pytest.fixture
def cli(pg: PgServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cli]:
    monkeypatch.setenv("VGPUMGR_LEDGER", pg.database())
    with new_cli() as made:
        made.sim_up(*(host(f"h{n}", ("T4", 2)) for n in (1, 2)))
        yield made


def shared(cli: Cli, name: str) -> tuple[str, ...]:
    return ("--interval", "1", "--status", str(cli.folder / name))


def turns(cli: Cli, name: str) -> dict[str, float]:
    """When each host had its last turn with that controller."""
    path = cli.folder / name
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"hosts": []}
    return {each["name"]: each["turn_at"] for each in found["hosts"] if each["turn_at"]}


def test_two_share_the_hosts_and_one_goes_on_alone(cli: Cli, pg: PgServer) -> None:
    with serving(cli, *shared(cli, "a")) as first, serving(cli, *shared(cli, "b")) as second:
        until(lambda: bool(turns(cli, "a") and turns(cli, "b")), "both have turns")
        killed_apply(cli, 8)
        until(lambda: not open_operations(cli), "the apply has ended")
        assert how_many(cli) == 8
        ended = lambda: [*first.told("operation-ended"), *second.told("operation-ended")]  # noqa: E731
        until(lambda: bool(ended()), "one of them says so")
        assert len(ended()) == 1
        first.kill()
        cli.ok("sim", "inject", "h1", "reboot")
        until(lambda: bool(second.told("host-restored")), "the other goes on alone")
        pg.kill()
        pg.start()
        back = time.time()
        until(lambda: min(turns(cli, "b").values(), default=0.0) > back, "it goes on")
        cli.ok("sim", "inject", "h2", "reboot")
        restored = lambda: {each["host"] for each in second.told("host-restored")}  # noqa: E731
        until(lambda: restored() == {"h1", "h2"}, "it restores hosts again")
        assert not [*first.told("drift"), *second.told("drift")]
    assert how_many(cli) == 8
    cli.ok("drift", "--ignore-foreign")
