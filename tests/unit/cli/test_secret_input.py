"""Where `secret set` takes a value from: a terminal that does not show it, a file, a pipe."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from tests.e2e.support import Cli, run_argv
from tests.ledgers import new_ledger
from vgpumgr.app.secret_store import SecretStore
from vgpumgr.cli.commands import secret
from vgpumgr.model.secret import MAX_SECRET_BYTES


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    made = Cli(tmp_path)
    new_ledger(made.state / "ledger.sqlite")
    yield made


def value(cli: Cli) -> bytes:
    return SecretStore(cli.state / "secrets").read("*", "key").reveal()


@pytest.mark.parametrize(
    ("given", "kept"), [(b"a\n", b"a"), (b"a\r\n", b"a"), (b"a\n\n", b"a\n"), (b"\xff\n", b"\xff")]
)
def test_a_pipe_gives_it_without_the_last_newline(cli: Cli, given: bytes, kept: bytes) -> None:
    cli.ok("secret", "set", "key", stdin=given)
    assert value(cli) == kept


def test_a_file_gives_it_byte_for_byte(cli: Cli) -> None:
    cli.ok("secret", "set", "key", "--file", cli.file(b"\x00\xfea\n"))
    assert value(cli) == b"\x00\xfea\n"


def test_one_that_is_too_large_is_refused(cli: Cli) -> None:
    most = b"x" * MAX_SECRET_BYTES
    cli.ok("secret", "set", "key", stdin=most + b"\n")
    for given in (("--file", cli.file(most + b"x")), ()):
        ran = cli.fails(2, "secret", "set", "key", *given, stdin=most + b"xx")
        assert "more than 64 KiB" in ran.err
    assert value(cli) == most


def test_at_a_terminal_it_is_typed_twice_and_not_shown(cli: Cli) -> None:
    for answers, code in ((("hunter2", "hunter2"), 0), (("hunter2", "hunter3"), 2)):
        with (
            mock.patch.object(secret, "at_a_terminal", lambda: True),
            mock.patch.object(secret, "typed", side_effect=answers) as asked,
        ):
            ran = cli.fails(code, "secret", "set", "key")
        assert [each.kwargs for each in asked.mock_calls] == [{"hidden": True}] * 2
        assert "hunter" not in ran.out + ran.err
        assert value(cli) == b"hunter2"


def test_it_is_no_argument(cli: Cli) -> None:
    ran = run_argv("vgpumgr", "secret", "set", "key", base64.b64encode(b"value").decode())
    assert ran.code == 2 and "Got unexpected extra argument" in ran.err
