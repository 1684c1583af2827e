"""One host of three hangs: commands that can do without it end in seconds, and say so."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.support import Cli, finish, host, new_cli, vm

PARTLY = 7


@pytest.fixture
def cli() -> Iterator[Cli]:
    with new_cli() as made:
        made.sim_up(*(host(f"h{n}", ("T4", 1)) for n in (1, 2, 3)))
        yield made


def test_an_apply_places_elsewhere_and_its_process_ends(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.ok("sim", "inject", "h2", "hang")
    file = cli.documents(vm("web", "T4-8Q", replicas=4))
    monkeypatch.setenv("VGPUMGR_CALL_TIMEOUT_S", "3000")  # whoever waited for it would not end
    ran = finish(cli.process("apply", "-f", file))
    cli.ok("sim", "inject", "h2", "clear")
    assert ran.code == PARTLY, ran.err
    assert "host h2 did not answer within" in ran.err and "was not considered" in ran.err
    assert sorted(each["host"] for each in cli.items("vm", "list")) == ["h1", "h1", "h3", "h3"]
    assert "h2" in cli("host", "list").out
    assert cli.ok("plan", "-f", file).err == ""
