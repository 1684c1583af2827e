"""Secrets with a marker, set and used in every way: the marker is nowhere but in their files."""

from __future__ import annotations

import os
import sqlite3
import stat
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import urlencode

import pytest

from tests.apiserver import ApiServer, UnixHttp, serving_api
from tests.e2e.support import Cli, host, new_cli
from vgpumgr.app.secret_files import FLEET

MARKS = {name: f"marker-{name}-hunter2" for name in ("cli", "file", "api", "page", "remote")}
# What a fence does: it reads the file, and notes the arguments and the environment that it has.
FENCE = """\
import pathlib, sys
path, told = map(pathlib.Path, sys.argv[1:])
own = pathlib.Path("/proc/self")
told.write_bytes((own / "cmdline").read_bytes() + (own / "environ").read_bytes())
told.with_name("read").write_bytes(path.read_bytes())
print("power is off")
"""


@pytest.fixture
def cli() -> Iterator[Cli]:
    with new_cli() as made:
        made.sim_up(host("h1", ("T4", 1)))
        yield made


def arguments() -> bytes:
    """The arguments and environments of every process of this machine that we may see."""
    found = b""
    for folder in Path("/proc").glob("[0-9]*"):
        for name in ("cmdline", "environ"):
            try:
                found += (folder / name).read_bytes()
            except OSError:
                continue
    return found


def test_a_planted_marker_is_in_its_file_and_nowhere_else(cli: Cli) -> None:
    told = [*_set_in_every_way(cli), *_used(cli), *_looked_at(cli)]
    _kept_elsewhere(cli)
    bare = ("secret", "show", "cli", "-o", "json")
    assert cli.ok(*bare).json["state"] == "present", "nothing is found because nothing was set"
    leaks = [text[:200] for text in told for mark in MARKS.values() if mark in text]
    assert leaks == []
    holders = {path for path in _files(cli.folder) if _holds(path)}
    secrets = cli.state / "secrets" / FLEET
    assert holders == {
        *(secrets / name for name in MARKS),
        *(cli.folder / name for name in ("given", "read")),  # what we typed, and what was read
    }
    assert all(stat.S_IMODE((secrets / name).stat().st_mode) == 0o600 for name in MARKS)


def _set_in_every_way(cli: Cli) -> Iterator[str]:
    yield from _texts(cli.ok("secret", "set", "cli", stdin=f"{MARKS['cli']}\n".encode()))
    given = cli.file(MARKS["file"], "given")
    yield from _texts(cli.ok("secret", "set", "file", "--file", given))
    with serving_api(cli) as server:
        yield from _at_the_server(server)
        yield str(server.ask("GET", "/v1/audit").body)
        yield str(server.ask("GET", "/v1/operations").body)
        assert not any(mark.encode() in arguments() for mark in MARKS.values())
        ended = server.end()
    yield from _texts(ended)


def _at_the_server(server: ApiServer) -> Iterator[str]:
    headers = {"If-Match": "*", "Idempotency-Key": "planted-1"}
    for value, status in ((MARKS["api"], 200), (MARKS["api"], 200), (MARKS["api"] + "x", 422)):
        said = server.ask("PUT", "/v1/secrets/*/api", {"value": value}, headers)
        assert said.status == status
        yield str(said)
    for body in ({"value": [MARKS["api"]]}, {"value": MARKS["api"], "more": MARKS["api"]}):
        yield str(server.ask("PUT", "/v1/secrets/*/api", body, headers))
    yield from _texts(server("secret", "set", "remote", stdin=MARKS["remote"].encode()))
    yield from _texts(server("secret", "list", "-o", "json"))
    fields = {"tenant": "*", "name": "page", "value": MARKS["page"], "request.key": "planted-2"}
    form = {"Content-Type": "application/x-www-form-urlencoded", "Origin": "http://vgpumgr"}
    yield _page(server, urlencode(fields), form)


def _page(server: ApiServer, fields: str, headers: dict[str, str]) -> str:
    """What the page says to a form, which our user's peer credentials let in."""
    with closing(UnixHttp(server.path)) as connection:
        connection.request("POST", "/do/secret.set", fields, headers)
        answer = connection.getresponse()
        text = answer.read().decode()
    assert answer.status == 200, text
    return text


def _used(cli: Cli) -> Iterator[str]:
    """A fence reads one, from its file alone."""
    program = cli.file(FENCE, "fence.py")
    seen = cli.folder / "seen"
    argv = f'["{sys.executable}","{program}","{{secret}}","{seen}"]'
    flags = ("--off", argv, "--status", argv, "--secret", "cli")
    yield from _texts(cli.ok("host", "fence", "h1", *flags))
    yield from _texts(cli.ok("host", "fence", "h1", "--check"))
    assert (cli.folder / "read").read_text() == MARKS["cli"]
    assert b"fence.py" in seen.read_bytes()
    yield from _texts(cli.fails(4, "secret", "remove", "cli"))


def _looked_at(cli: Cli) -> Iterator[str]:
    for command in ("list", "show cli", "list -o wide", "list -o yaml"):
        yield from _texts(cli.ok("secret", *command.split()))
    for command in ("audit list -o json", "operation list -o json", "host show h1 -o json"):
        yield from _texts(cli.ok(*command.split()))
    yield from _texts(cli("doctor"))
    yield from _texts(cli("secret", "set", "../x", stdin=MARKS["cli"].encode()))


def _kept_elsewhere(cli: Cli) -> None:
    """A backup, and what `serve` logs."""
    said = cli.ok("store", "backup", str(cli.folder / "backup"))
    assert "5 secrets left out" in said.err
    ran = cli.ok("serve", "--once", "-o", "json")
    (cli.folder / "serve.log").write_text(ran.out + ran.err)
    with closing(sqlite3.connect(cli.state / "ledger.sqlite")) as raw:
        digests = raw.execute("SELECT digest FROM secret").fetchall()
    assert len(digests) == len(MARKS) and all(len(each) == 64 for (each,) in digests)


def _texts(ran: object) -> tuple[str, str]:
    return ran.out, ran.err  # type: ignore[attr-defined]


def _files(folder: Path) -> Iterator[Path]:
    for above, _, names in os.walk(folder):
        yield from (path for name in names if (path := Path(above, name)).is_file())


def _holds(path: Path) -> bool:
    data = path.read_bytes()
    return any(mark.encode() in data for mark in MARKS.values())
