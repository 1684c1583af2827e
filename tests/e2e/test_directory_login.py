"""Logins at a real directory, Debian's slapd, over LDAPS and StartTLS, and attacks on them."""

from __future__ import annotations

import dataclasses
import json
import os
import socket
import socketserver
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from tests import directory_server
from tests.apiserver import ApiServer, serving_api
from tests.certificates import Authority
from tests.directory_server import (
    GROUPS,
    PASSWORD,
    PEOPLE,
    SERVICE,
    SERVICE_PASSWORD,
    Directory,
    group,
)
from tests.e2e.support import Cli, host, new_cli, run_argv, vm
from tests.e2e.test_api_login import Colleague
from vgpumgr.identity.directory_login import DirectorySettings
from vgpumgr.identity.directory_process import DirectoryLogins, DirectoryServers
from vgpumgr.model.errors import HostUnreachable, LoginRefused, VgpumgrError

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(
        not directory_server.is_there(),
        reason="slapd or python-ldap is missing: tools/setup.sh test",
    ),
]
TYPED = f"{PASSWORD}\n".encode()
BIG = 1200
"""The number of groups that the user ``bo`` is in below ``ou=big``."""


def _big_groups() -> str:
    found = [f"dn: ou=big,{GROUPS}\nobjectClass: organizationalUnit\nou: big\n"]
    found += [
        group(f"g{each}", f"cn=bo,{PEOPLE}").replace(f",{GROUPS}\n", f",ou=big,{GROUPS}\n", 1)
        for each in range(BIG)
    ]
    return "\n".join(found)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Directory]:
    with directory_server.running(tmp_path_factory.mktemp("ldap"), more=_big_groups()) as running:
        yield running


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "bind-password"
    path.write_text(SERVICE_PASSWORD + "\n")
    path.chmod(0o600)
    return path


@pytest.fixture
def settings(secret: Path) -> DirectorySettings:
    return DirectorySettings(
        bind_dn=SERVICE, bind_password_file=secret, user_base=PEOPLE, group_base=GROUPS
    )


def login_at(settings: DirectorySettings, *urls: str, ca: Path, **fields: Any) -> DirectoryLogins:
    changed = dataclasses.replace(settings, **fields)
    return DirectoryLogins(changed, DirectoryServers(urls, ca), 4.0)


@pytest.fixture
def login(settings: DirectorySettings, directory: Directory) -> DirectoryLogins:
    return login_at(settings, directory.url, ca=directory.ca)


def test_who_has_the_password_is_who_the_directory_says(
    login: DirectoryLogins, settings: DirectorySettings, directory: Directory
) -> None:
    for each in (login, login_at(settings, directory.starttls_url, ca=directory.ca)):
        who = each.log_in("ada", PASSWORD)
        assert who.subjects == {"user:ada", "group:cad", "group:gpu-users"}
    assert login.log_in("ADA", PASSWORD).user == "ada"


def test_groups_of_groups_where_the_settings_say_so(
    settings: DirectorySettings, directory: Directory
) -> None:
    login = login_at(settings, directory.url, ca=directory.ca, nested=True)
    assert login.log_in("ada", PASSWORD).groups == {"cad", "gpu-users", "staff", "all"}


def test_groups_that_have_their_members_by_name(
    settings: DirectorySettings, directory: Directory
) -> None:
    login = login_at(settings, directory.url, ca=directory.ca, group_filter="(memberUid={user})")
    assert login.log_in("bo", PASSWORD).groups == {"ops"}
    assert login.log_in("ada", PASSWORD).groups == set()


@pytest.mark.parametrize(
    ("user", "password"),
    [
        ("ada", "wrong"),
        ("ada", ""),
        ("ada", "\x00"),
        ("nobody-such", PASSWORD),
        ("", PASSWORD),
        ("*", PASSWORD),
        ("a*", PASSWORD),
        ("ada)(uid=*", PASSWORD),
        ("*)(|(uid=*)", PASSWORD),
        ("ada\x00", PASSWORD),
        ("\\61da", PASSWORD),
        (f"cn=bo,{PEOPLE}", PASSWORD),
        ("{dn}", PASSWORD),
        (SERVICE, SERVICE_PASSWORD),
        ("vgpumgr", SERVICE_PASSWORD),
        ("ada", "\ud800"),
        ("ada", "x" * 100_000),
    ],
)
def test_what_is_refused_alike(login: DirectoryLogins, user: str, password: str) -> None:
    with pytest.raises(LoginRefused, match="the user or the password is wrong"):
        login.log_in(user, password)


@pytest.mark.parametrize(
    ("user", "said"), [("twin", "more than one such user"), ("two-names", "has no name")]
)
def test_an_entry_that_is_not_one_user(login: DirectoryLogins, user: str, said: str) -> None:
    with pytest.raises(LoginRefused, match=said):
        login.log_in(user, PASSWORD)


def test_a_part_of_the_groups_is_not_taken_for_all(
    settings: DirectorySettings, directory: Directory
) -> None:
    login = login_at(settings, directory.url, ca=directory.ca)
    with pytest.raises(LoginRefused) as refused:
        login.log_in("bo", PASSWORD)
    assert "after 500 entries: Size limit exceeded" in refused.value.why


def test_a_directory_that_another_authority_vouches_for(
    settings: DirectorySettings, directory: Directory, tmp_path: Path
) -> None:
    Authority(tmp_path / "other")
    for url in (directory.url, directory.starttls_url):
        login = login_at(settings, url, ca=tmp_path / "other" / "ca-cert.pem")
        with pytest.raises(HostUnreachable, match="cannot be reached"):
            login.log_in("ada", PASSWORD)


def test_a_certificate_of_another_name(settings: DirectorySettings, tmp_path: Path) -> None:
    with directory_server.running(tmp_path, names="DNS:other.example.org") as other:
        for url in (other.url, other.starttls_url):
            with pytest.raises(HostUnreachable, match="cannot be reached"):
                login_at(settings, url, ca=other.ca).log_in("ada", PASSWORD)


def test_the_next_server_is_asked_where_one_is_away(
    settings: DirectorySettings, directory: Directory
) -> None:
    away = f"ldaps://127.0.0.1:{directory_server.free_port()}"
    login = login_at(settings, away, directory.url, ca=directory.ca)
    assert login.log_in("ada", PASSWORD).user == "ada"
    with pytest.raises(HostUnreachable, match="cannot be reached"):
        login_at(settings, away, ca=directory.ca).log_in("ada", PASSWORD)


@contextmanager
def _says(told: bytes) -> Iterator[str]:
    """A server that says a byte of ``told`` each 0.2 seconds, again and again; its port."""
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            peers = []
            server.settimeout(0.05)
            while not ended.wait(0.2):
                try:
                    peers.append(server.accept()[0])
                except TimeoutError:
                    pass
                for peer in peers if told else ():
                    try:
                        peer.send(told)
                    except OSError:
                        pass
            for peer in peers:
                peer.close()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"127.0.0.1:{server.getsockname()[1]}"
        finally:
            ended.set()
            thread.join()


@pytest.mark.parametrize("told", [b"", b"\x30", b"\x16\x03"])
@pytest.mark.parametrize("scheme", ["ldaps", "ldap"])
def test_a_server_that_does_not_answer_in_time_holds_no_login_up(
    settings: DirectorySettings, directory: Directory, scheme: str, told: bytes
) -> None:
    begun = time.monotonic()
    with _says(told) as silent, pytest.raises(VgpumgrError):
        login_at(settings, f"{scheme}://{silent}", ca=directory.ca).log_in("ada", PASSWORD)
    assert time.monotonic() - begun < 30, "a login has 4 seconds in this test"


def _reply(message: bytes) -> bytes:
    """A bind is taken; a search finds an entry of a gigabyte, of which the head is here."""
    begun = message.index(b"\x02\x01")
    number, kind = message[begun + 2 : begun + 3], message[begun + 3]
    if kind == 0x60:
        return b"\x30\x0c\x02\x01" + number + b"\x61\x07\x0a\x01\x00\x04\x00\x04\x00"
    return b"\x30\x84\x40\x00\x00\x00\x02\x01" + number + b"\x64\x84\x3f\xff\xff\xf0"


@contextmanager
def _huge(folder: Path) -> Iterator[str]:
    """A directory over TLS whose every entry is a gigabyte."""
    Authority(folder / "ca").issue("IP:127.0.0.1", folder)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "server-cert.pem", folder / "server-key.pem")

    class Answers(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with suppress(OSError, ValueError), context.wrap_socket(self.request, True) as peer:
                while message := peer.recv(4096):
                    answer = _reply(message)
                    peer.sendall(answer)
                    while answer[1] == 0x84:
                        peer.sendall(bytes(1 << 20))

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,)).start()
        try:
            yield f"ldaps://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()


def test_an_answer_of_a_gigabyte_is_not_read(settings: DirectorySettings, tmp_path: Path) -> None:
    with _huge(tmp_path) as url, pytest.raises(VgpumgrError) as refused:
        login_at(settings, url, ca=tmp_path / "ca-cert.pem").log_in("ada", PASSWORD)
    assert "directory" in refused.value.message


def test_the_account_of_the_settings_is_refused(
    settings: DirectorySettings, directory: Directory, secret: Path
) -> None:
    login = login_at(settings, directory.url, ca=directory.ca)
    secret.write_text("old password")
    with pytest.raises(LoginRefused, match="does not take the account of the settings"):
        login.log_in("ada", PASSWORD)
    secret.write_text("")
    with pytest.raises(LoginRefused, match="is empty"):
        login.log_in("ada", PASSWORD)
    secret.chmod(0o604)
    with pytest.raises(LoginRefused, match="other users may read"):
        login.log_in("ada", PASSWORD)


def environ_of(directory: Directory, secret: Path) -> dict[str, str]:
    return {
        "VGPUMGR_AUTH_LDAP_URL": directory.url,
        "VGPUMGR_AUTH_LDAP_CA": str(directory.ca),
        "VGPUMGR_AUTH_LDAP_BIND_DN": SERVICE,
        "VGPUMGR_AUTH_LDAP_BIND_PASSWORD_FILE": str(secret),
        "VGPUMGR_AUTH_LDAP_USER_BASE": PEOPLE,
        "VGPUMGR_AUTH_LDAP_GROUP_BASE": GROUPS,
        "VGPUMGR_AUTH_LDAP_NESTED": "true",
    }


@pytest.fixture(scope="module")
def cli() -> Iterator[Cli]:
    with new_cli() as made:
        made.sim_up(host("h1", ("T4", 2)))
        made.ok("apply", "-f", made.documents(vm("desk-a", "T4-4Q")))
        yield made


@contextmanager
def _api(cli: Cli, directory: Directory, secret: Path) -> Iterator[ApiServer]:
    Authority(cli.folder / "ca").issue("IP:127.0.0.1", cli.folder)
    files = (f"{cli.folder}/server-cert.pem", f"{cli.folder}/server-key.pem")
    tls = ("--certificate", files[0], "--key", files[1])
    with (
        mock.patch.dict(os.environ, environ_of(directory, secret)),
        serving_api(cli, tls=tls) as it,
    ):
        yield it


def test_auth_test_shows_groups_and_the_roles_that_follow(
    cli: Cli, directory: Directory, secret: Path
) -> None:
    cli.ok("role", "grant", "group:staff", "viewer")
    argv = ("vgpumgr", "--state-dir", str(cli.state), "auth", "test", "--user", "ada")
    with mock.patch.dict(os.environ, environ_of(directory, secret)):
        shown = run_argv(*argv, stdin=TYPED)
        assert "group:all, group:cad, group:gpu-users, group:staff, user:ada" in shown.out
        assert run_argv(*argv, stdin=b"wrong\n").code == 8


def test_a_login_from_the_command_line(
    cli: Cli, directory: Directory, secret: Path, tmp_path: Path
) -> None:
    with _api(cli, directory, secret) as api:
        ada = Colleague(tmp_path, api, cli.folder / "ca-cert.pem")
        cli.ok("role", "grant", "group:cad", "operator")
        refused = ada("login", "--user", "ada", stdin=b"wrong\n")
        assert (refused.code, "is wrong" in refused.err) == (8, True)
        assert "vgpumgr login --user" in ada("login").err
        assert "logged in as ada" in ada("login", "--user", "ada", stdin=TYPED).err
        assert "desk-a" in ada("vm", "list").out
        trail = cli.items("audit", "list", "--limit", "0")
        events = {each["event"] for each in trail}
        assert {"access.login", "access.refused"} <= events
        assert PASSWORD not in json.dumps(trail) and "wrong\\n" not in json.dumps(trail)
        tries = [ada("login", "--user", "bo", stdin=b"x\n") for _ in range(8)]
        assert "too many logins" in tries[-1].err
        ada.ok("logout")
        assert ada("vm", "list").code == 8
