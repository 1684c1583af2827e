"""The servers of a user: kept in files for that user alone, chosen by name or address."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from vgpumgr.client.api_client import ServerAddress
from vgpumgr.client.contexts import ContextFile, ServerContext, server_address
from vgpumgr.model.errors import NotFound, UsageError

PROD = ServerContext(name="prod", server="https://gpu.example.org")


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"XDG_CONFIG_HOME": str(tmp_path)}


def test_without_a_context_commands_work_in_their_own_process(environ: dict[str, str]) -> None:
    assert server_address(environ) is None
    assert ContextFile.of(environ).contexts() == ()


def test_the_current_context_is_used_with_its_token(environ: dict[str, str]) -> None:
    file = ContextFile.of(environ)
    file.add(PROD, "vgm_x")
    file.add(ServerContext(name="lab", server="unix:/run/lab.sock"))
    file.use("prod")
    address = server_address(environ)
    assert (str(address), address and address.token) == ("https://gpu.example.org:8443", "vgm_x")
    named = server_address(environ, "lab")
    assert named == ServerAddress(path="/run/lab.sock")
    file.use("")
    assert server_address(environ) is None


def test_tokens_are_for_their_user_alone(environ: dict[str, str], tmp_path: Path) -> None:
    ContextFile.of(environ).add(PROD, "vgm_x")
    modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in tmp_path.rglob("*") if p.is_file()}
    assert modes == {"contexts.json": 0o600, "prod.token": 0o600}


def test_a_forgotten_context_takes_its_token_with_it(environ: dict[str, str]) -> None:
    file = ContextFile.of(environ)
    file.add(PROD, "vgm_x")
    file.use("prod")
    file.remove("prod")
    assert (file.token("prod"), file.current(), file.contexts()) == ("", "", ())
    with pytest.raises(NotFound):
        file.use("prod")


@pytest.mark.parametrize("text", ["{", "[]", '{"contexts": [1]}', '{"contexts": [{"x": 1}]}'])
def test_a_damaged_file_is_named(environ: dict[str, str], tmp_path: Path, text: str) -> None:
    ContextFile.of(environ).add(PROD)
    (tmp_path / "vgpumgr" / "contexts" / "contexts.json").write_text(text)
    with pytest.raises(UsageError, match="cannot be read"):
        ContextFile.of(environ).contexts()


@pytest.mark.parametrize(
    "text",
    ["http://gpu.example.org", "ftp://x", "unix:", "https://", "https://x/path", "https://x:99999"],
)
def test_an_address_is_tls_or_a_socket(text: str) -> None:
    with pytest.raises(UsageError, match="is no server"):
        ServerAddress.parse(text)


def test_plain_http_is_taken_on_the_loopback_alone() -> None:
    assert not ServerAddress.parse("http://127.0.0.1:8080").tls
