"""`vgpumgr vm connect` beside a running `vgpumgr serve`, over the simulated fleet."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.e2e.support import Cli, host, interrupt, new_cli, pool, until, vm
from tests.vncviewer import Viewer


@pytest.fixture
def cli() -> Iterator[Cli]:
    with new_cli() as made:
        made.sim_up(host("h1", ("T4", 2), images=["cad@1.qcow2"]))
        made.ok("apply", "-f", made.documents(vm("desk", "T4-2Q", display=True), vm("blind")))
        yield made


@contextmanager
def serving(cli: Cli, kill: bool = False) -> Iterator[None]:
    process = cli.process("serve")
    try:
        until(
            lambda: "no vgpumgr serve" not in cli("vm", "connect", "blind").err, "it gives tickets"
        )
        yield
    finally:
        ran = interrupt(process, signal.SIGKILL if kill else signal.SIGTERM)
        assert ran.code == (-signal.SIGKILL if kill else 0), ran.err


def closed(cli: Cli) -> list[str]:
    """Why tickets were closed, the last one first."""
    found = cli.items("audit", "list", "--event", "ticket.closed")
    return [item["detail"] for item in found if item["vm"] == "desk"]


def test_a_ticket_is_one_connection_to_the_screen(cli: Cli) -> None:
    refused = cli.fails(4, "vm", "connect", "desk").err
    assert (
        "no vgpumgr serve runs here to proxy the console" in refused
        and "next: vgpumgr serve" in refused
    )
    with serving(cli):
        cli.fails(3, "vm", "connect", "dusk")
        assert "no VNC console" in cli.fails(1, "vm", "connect", "blind").err

        ticket = cli.ok("vm", "connect", "desk", "-o", "json").json
        with Viewer(ticket["address"]) as viewer:
            assert viewer.log_in(ticket["password"]) == ""
            assert viewer.screen().name == "desk (simulated)"
            assert len(viewer.picture(64, 64)) == 64 * 64 * 4
            with Viewer(ticket["address"]) as late:
                assert late.ended()
        until(lambda: closed(cli) == ["the viewer disconnected"], "it is written down")
        files = [each for each in cli.state.glob("ledger.sqlite*") if each.is_file()]
        kept = b"".join(each.read_bytes() for each in files)
        assert ticket["address"].encode() in kept and ticket["password"].encode() not in kept

        shown = cli.ok("vm", "connect", "desk").out
        assert "Address:" in shown and "Password:" in shown
        cli.ok("sim", "inject", "h1", "unreachable")
        failed = cli.fails(6, "vm", "connect", "desk").err
        assert "cannot reach h1" in failed
        cli.ok("sim", "inject", "h1", "clear")
        cli.ok("vm", "stop", "desk", "--force")
        until(lambda: closed(cli)[0] == "the console has ended", "the other one is closed, too")
        assert "vgpumgr vm start desk" in cli.fails(4, "vm", "connect", "desk").err


def test_a_killed_serve_leaves_a_row_that_the_next_one_closes(cli: Cli) -> None:
    with serving(cli, kill=True):
        ticket = cli.ok("vm", "connect", "desk", "-o", "json").json
        viewer = Viewer(ticket["address"])
        assert viewer.log_in(ticket["password"]) == ""
    assert viewer.ended()
    viewer.socket.close()
    assert closed(cli) == []
    cli.fails(4, "vm", "connect", "desk")
    with serving(cli):
        until(lambda: closed(cli) != [], "the next one says so")
        assert "had opened it has ended" in closed(cli)[0]
        ticket = cli.ok("vm", "connect", "desk", "-o", "json").json
    assert closed(cli)[0] == "vgpumgr serve has ended"
    with pytest.raises(ConnectionRefusedError):
        Viewer(ticket["address"])


def test_a_desktops_ticket_is_for_who_is_on_it_and_counts_as_use(cli: Cli) -> None:
    def session() -> Any:
        return cli.ok("pool", "show", "cad", "-o", "json").json["items"][0]

    whole, users = [{"profile": "passthrough"}], {"users": ["ann", "bob"]}
    asked = pool(gpus=whole, entitlement=users, console=True, max=1)
    cli.ok("apply", "-f", cli.documents(asked))
    with serving(cli):
        assert "ann has cad-01" in cli.ok("pool", "assign", "cad", "ann", "--wait", "100s").out
        refused = cli.fails(4, "pool", "connect", "cad", "bob").err
        assert (
            "bob has no session on a desktop of cad" in refused and "pool assign cad bob" in refused
        )
        ticket = cli.ok("pool", "connect", "cad", "ann", "-o", "json").json
        assert (ticket["vm"], ticket["user"]) == ("cad-01", "ann")
        with Viewer(ticket["address"]) as viewer:
            assert viewer.log_in(ticket["password"]) == ""
            assert viewer.screen().name == "cad-01 (simulated)"
            assert session()["disconnected_at"] is None
        until(lambda: session()["disconnected_at"] is not None, "she has left")
        ticket = cli.ok("pool", "connect", "cad", "ann", "-o", "json").json
        with Viewer(ticket["address"]) as viewer:
            viewer.log_in(ticket["password"])
            viewer.screen()
            until(lambda: session()["disconnected_at"] is None, "she is back")
