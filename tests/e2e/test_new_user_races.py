"""Two commands at once: one of them wins, the other says what is going on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.support import Cli, finish, host, names, new_cli, until, vm


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cli]:
    """One host with a T4; no call is cut."""
    monkeypatch.setenv("VGPUMGR_CALL_TIMEOUT_S", "300")
    with new_cli() as found:
        found.sim_up(host("one", ("T4", 1)))
        yield found


def test_of_two_applies_for_the_last_gpu_one_wins_whole(cli: Cli) -> None:
    files = [cli.documents(vm(n, "T4-4Q", replicas=3), name=f"{n}.yaml") for n in ("a", "b")]
    processes = [cli.process("apply", "-f", file) for file in files]
    ended = [finish(process) for process in processes]
    assert sorted(ran.code for ran in ended) == [0, 5], [ran.err for ran in ended]
    assert not any("Traceback" in ran.err for ran in ended)
    assert len(cli.items("vm", "list")) == len(cli.items("allocation", "list")) == 3


def test_what_another_process_works_on_is_not_taken_for_a_crash(cli: Cli) -> None:
    file = cli.documents(vm("a", "T4-4Q", replicas=2))
    cli.ok("sim", "inject", "one", "latency", "0.08")
    process = cli.process("apply", "-f", file)
    until(lambda: bool(cli.items("operation", "list", "--open")), "the apply's operation")
    cli.ok("sim", "inject", "one", "hang")
    (operation,) = names(cli.items("operation", "list", "--open"))
    for command in (("delete", "--force", "-y"), ("apply",)):
        error = cli.fails(4, *command, "-f", file, "-o", "json").error
        assert error["message"] == f"operation {operation[:8]} is running"
        assert error["next"].startswith(f"vgpumgr operation show {operation[:8]}")
    cli.ok("sim", "inject", "one", "clear")
    assert finish(process).code == 0
    cli.ok("delete", "-f", file, "--force", "-y")
