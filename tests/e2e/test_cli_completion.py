"""Names that a shell completes: read from the ledger, and silent where there is none."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence

import pytest

from tests.apiserver import serving_api
from tests.e2e.support import Cli, host, new_cli, vm
from vgpumgr.cli.commands.completion import PATIENCE_S


@pytest.fixture(scope="module")
def cli() -> Iterator[Cli]:
    with new_cli() as found:
        found.sim_up(host("one", ("T4", 1)), host("other", ("A40", 1)))
        found.ok("apply", "-f", found.documents(vm("desk", "T4-4Q"), vm("web", "T4-4Q")))
        yield found


def completed(cli: Cli, shell: str, *typed: str) -> set[str]:
    """What the shell offers for the last of these words."""
    words = ("vgpumgr", "--state-dir", str(cli.state), *typed)
    return offered(shell, words, dict(os.environ))


def offered(shell: str, words: Sequence[str], env: dict[str, str]) -> set[str]:
    here = {"COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    if shell == "fish":
        here["COMP_CWORD"] = words[-1]
    ended = subprocess.run(
        [sys.executable, "-m", "vgpumgr"],
        env={**env, **here, "_VGPUMGR_COMPLETE": f"{shell}_complete"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert not ended.stderr
    lines = ended.stdout.split("\n")
    return (
        set(lines[1::3]) if shell == "zsh" else {each.partition(",")[2] for each in lines if each}
    )


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_completes_names(cli: Cli, shell: str) -> None:
    assert completed(cli, shell, "vm", "start", "") == {"desk", "web"}


@pytest.mark.parametrize(
    ("typed", "names"),
    [
        (("vm", "show", "d"), {"desk"}),
        (("vm", "stop", "desk", ""), {"web"}),
        (("host", "cordon", "o"), {"one", "other"}),
        (("vm", "migrate", "desk", "--to", "ot"), {"other"}),
        (("pool", "show", ""), set()),
        (("image", "show", ""), set()),
        (("operation", "resume", ""), set()),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, tuple) else "",
)
def test_names_complete_by_kind(cli: Cli, typed: tuple[str, ...], names: set[str]) -> None:
    assert completed(cli, "bash", *typed) == names


@pytest.mark.parametrize("noun", ["operation", "gpu"])
def test_what_has_no_name_completes_by_its_id(cli: Cli, noun: str) -> None:
    known = {each["name"] for each in cli.items(noun, "list")}
    assert completed(cli, "bash", noun, "show", "") == known


def test_without_a_ledger_nothing_is_offered_and_none_is_made(cli: Cli) -> None:
    nowhere = cli.state / "nowhere"
    words = ("vgpumgr", "--state-dir", str(nowhere), "vm", "start", "")
    assert offered("bash", words, dict(os.environ)) == set()
    assert not nowhere.exists()


def test_a_ledger_that_is_none_disturbs_no_shell(cli: Cli) -> None:
    file = cli.state / "broken.db"
    file.write_text("no ledger")
    words = ("vgpumgr", "--ledger", str(file), "vm", "start", "")
    assert offered("bash", words, dict(os.environ)) == set()


def at(server: str, *typed: str) -> set[str]:
    words = ("vgpumgr", "--server", server, *typed)
    return offered("bash", words, dict(os.environ))


KINDS = [
    ("vm", "show"), ("host", "show"), ("gpu", "show"), ("image", "show"), ("pool", "show"),
    ("operation", "show"), ("operation", "resume"), ("queue", "show"), ("quota", "set"),
    ("booking", "delete"), ("token", "revoke"), ("auth", "session", "end"), ("role", "grant"),
]  # fmt: skip


def test_names_at_a_server_are_those_of_its_ledger(cli: Cli) -> None:
    cli.ok("quota", "set", "blue", "--gpus", "2")
    cli.ok("token", "create", "ci", "--role", "viewer")
    cli.ok("role", "grant", "user:ada", "viewer")
    with serving_api(cli) as api:
        server = f"unix:{api.path}"
        found = {typed: at(server, *typed, "") for typed in KINDS}
        assert "default" in found["quota", "set"], "a tenant without a quota has a line, too"
        found["quota", "set"] -= {"default"}
        assert found == {typed: completed(cli, "bash", *typed, "") for typed in KINDS}
        assert {typed for typed, names in found.items() if names} >= set(KINDS[:3])
        api.process.send_signal(signal.SIGSTOP)
        try:
            began = time.monotonic()
            assert at(server, "vm", "show", "") == set()
            assert time.monotonic() - began < PATIENCE_S + 8
        finally:
            api.process.send_signal(signal.SIGCONT)


@pytest.mark.parametrize("server", ["unix:/nowhere", "https://127.0.0.1:1", "nocontext", "x:y"])
def test_a_server_that_is_away_disturbs_no_shell(server: str) -> None:
    assert at(server, "vm", "show", "") == set()
