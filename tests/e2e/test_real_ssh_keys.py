"""A real sshd on the loopback: weak algorithms, revoked keys, certificate authorities."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.e2e.support import until
from tests.nshosts import fingerprint, keygen
from vgpumgr.hosts.ssh import host_keys, ssh_connection
from vgpumgr.hosts.ssh.ssh_config import SshTarget
from vgpumgr.hosts.ssh.ssh_connection import SshConnection, through
from vgpumgr.model.errors import HostKeyChanged, HostUnreachable, VgpumgrError

SSHD = "/usr/sbin/sshd"
TIMEOUT_S = 20.0

pytestmark = [
    pytest.mark.root,
    pytest.mark.mainline,
    pytest.mark.skipif(
        os.geteuid() != 0 or not Path(SSHD).exists() or not shutil.which("ssh-keygen"),
        reason="needs root, sshd and ssh-keygen",
    ),
]

Start = Callable[..., SshTarget]


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keys")
    for name in ("host", "user", "authority"):
        keygen(folder / name)
    shutil.copy(folder / "user.pub", folder / "authorized")
    return folder


@pytest.fixture
def start(keys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh").mkdir()
    Path("/run/sshd").mkdir(exist_ok=True)
    running: list[subprocess.Popen[bytes]] = []

    def begin(*settings: str) -> SshTarget:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        config = tmp_path / "sshd_config"
        lines = (
            *(f"Port {port}", "ListenAddress 127.0.0.1", f"HostKey {keys / 'host'}"),
            *("PidFile none", f"AuthorizedKeysFile {keys / 'authorized'}", "StrictModes no"),
            *("PermitRootLogin yes", "UsePAM no", "UseDNS no", *settings),
        )
        config.write_text("\n".join(lines) + "\n")
        process = subprocess.Popen([SSHD, "-D", "-f", str(config)], stderr=subprocess.DEVNULL)
        running.append(process)
        until(lambda: answers(port), "sshd listens")
        return SshTarget(
            host="127.0.0.1",
            port=port,
            user="root",
            identity_files=(keys / "user",),
            identities_only=True,
        )

    yield begin
    for process in running:
        process.kill()
        process.wait()


def answers(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0) as sock:
        return sock.recv(4) == b"SSH-"
    return False


def pins(keys: Path) -> frozenset[str]:
    return frozenset({fingerprint(keys / "host.pub")})


def connect(target: SshTarget, accepted: frozenset[str]) -> str:
    made = SshConnection(target, accepted, timeout_s=TIMEOUT_S, advice="trust it")
    try:
        return made.run(["echo", "in"], b"", TIMEOUT_S).out.decode().strip()
    finally:
        made.close()


def known_hosts(text: str) -> None:
    Path(os.environ["HOME"], ".ssh", "known_hosts").write_text(text)


def line(keys: Path, name: str = "host") -> str:
    return " ".join((keys / f"{name}.pub").read_text().split()[:2])


# -- algorithms


@pytest.mark.parametrize(
    "settings",
    [
        ("Ciphers 3des-cbc",),
        ("Ciphers aes128-cbc,aes256-cbc",),
        ("MACs hmac-md5,hmac-md5-96", "Ciphers aes128-ctr"),
        ("MACs hmac-sha1,hmac-sha1-96", "Ciphers aes128-ctr"),
        ("KexAlgorithms diffie-hellman-group14-sha1,diffie-hellman-group1-sha1",),
    ],
    ids=["3des", "cbc", "md5", "sha1", "kex"],
)
def test_a_host_that_offers_only_weak_algorithms_is_refused(
    start: Start, keys: Path, settings: tuple[str, ...]
) -> None:
    target = start(*settings)
    said = ""
    try:
        assert connect(target, pins(keys)) != "in", "it was spoken to"
    except VgpumgrError as error:
        said = f"{type(error).__name__}: {error.message}"
    assert said == f"HostUnreachable: {target} and vgpumgr have no safe SSH algorithm in common"
    with pytest.raises(HostUnreachable) as caught:
        ssh_connection.fingerprints(target, TIMEOUT_S)
    assert "sshd -T" in caught.value.next


@pytest.mark.parametrize(
    "settings",
    [
        (),
        # Debian 11's sshd, as it comes, less what is weak; then each of the oldest still good.
        ("Ciphers aes128-ctr", "MACs hmac-sha2-256", "KexAlgorithms curve25519-sha256@libssh.org"),
        ("Ciphers aes256-gcm@openssh.com", "KexAlgorithms ecdh-sha2-nistp256"),
        ("MACs hmac-sha2-512-etm@openssh.com", "KexAlgorithms diffie-hellman-group14-sha256"),
        ("MACs hmac-sha2-256,hmac-sha1", "Ciphers 3des-cbc,aes192-ctr"),
    ],
)
def test_what_is_in_every_debian_since_11_is_spoken(
    start: Start, keys: Path, settings: tuple[str, ...]
) -> None:
    assert connect(start(*settings), pins(keys)) == "in"


# -- known_hosts


def test_a_revoked_key_is_refused_even_where_it_is_pinned(start: Start, keys: Path) -> None:
    target = start()
    assert connect(target, pins(keys)) == "in"
    known_hosts(f"{target.known_as} {line(keys)}\n@revoked * {line(keys)}\n")
    outcome = ""
    try:
        outcome = connect(target, pins(keys))
    except HostKeyChanged as error:
        outcome = f"{error.message}: {error.why}"
    assert outcome.startswith("the SSH key of 127.0.0.1 is revoked"), outcome
    assert "known_hosts:2 marks @revoked" in outcome
    with pytest.raises(HostKeyChanged, match="revoked"):
        ssh_connection.fingerprints(target, TIMEOUT_S)
    known_hosts(f"@revoked elsewhere {line(keys)}\n")
    assert connect(target, pins(keys)) == "in", "another host's key may be the same"


def test_a_jump_host_behind_a_certificate_authority_is_told_by_name(
    start: Start, keys: Path
) -> None:
    jump = start("AllowTcpForwarding yes")
    known_hosts(f"@cert-authority * {line(keys, 'authority')}\n")
    said = ""
    try:
        via = through((jump,), TIMEOUT_S)
        assert via is not None
        via.run(["true"], b"", TIMEOUT_S)
    except VgpumgrError as error:
        said = error.next
    except Exception as defect:
        said = f"{type(defect).__name__}: {defect}"
    assert "known_hosts:1: @cert-authority is not supported here" in said
    known_hosts(f"@cert-authority * {line(keys, 'authority')}\n{jump.known_as} {line(keys)}\n")
    via = through((jump,), TIMEOUT_S)
    assert via is not None
    assert via.run(["echo", "in"], b"", TIMEOUT_S).out == b"in\n"
    via.close()


def test_known_hosts_lines_of_every_form(keys: Path, tmp_path: Path) -> None:
    """As ssh-keygen hashes them, and as sshd(8) describes them."""
    path = tmp_path / "known_hosts"
    host, other = line(keys), line(keys, "authority")
    path.write_text(f"hashed {host}\n[hashed]:2222 {host}\n")
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", str(path)], check=True, capture_output=True)
    path.write_bytes(
        path.read_bytes()
        + b"# a comment \xff that is no text\n@marker x ssh-ed25519 AAAA\nshort ssh-ed25519\n"
        + b"broken ssh-ed25519 ====\n\n"
        + f"*.lab,!bad.lab {host} comment with words\n".encode()
        + f"UPPER,10.0.0.? {host}\nboth {host}\nboth {other}\n".encode()
        + f"@revoked bo* {host}\n@cert-authority *.lab,both {other}\n".encode()
    )
    ours, theirs = pins(keys), frozenset({fingerprint(keys / "authority.pub")})
    for name, expected in {
        "hashed": ours,
        "[hashed]:2222": ours,
        "[hashed]:22": frozenset(),
        "a.lab": ours,
        "bad.lab": frozenset(),
        "upper": ours,
        "10.0.0.7": ours,
        "10.0.0.77": frozenset(),
        "both": theirs,
        "broken": frozenset(),
        "x": frozenset(),
    }.items():
        assert host_keys.known_fingerprints(name, (path, tmp_path / "absent")) == expected, name
