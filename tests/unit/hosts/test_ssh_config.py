"""Where an address leads under the user's SSH configuration."""

from __future__ import annotations

import os
import pwd
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vgpumgr.hosts.ssh import ssh_config
from vgpumgr.hosts.ssh.ssh_config import SshAddress, SshTarget, resolve
from vgpumgr.model.errors import DeadlineExceeded, UsageError

ME = pwd.getpwuid(os.getuid()).pw_name


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def at(home: Path, address: str, config: str = "") -> SshTarget:
    path = home / "config"
    path.write_text(config)
    return resolve(SshAddress.parse(address), path)


def program(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program in the place of ``ssh``."""
    folder.mkdir()
    path = folder / "ssh"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def test_an_address_has_user_host_and_port() -> None:
    assert SshAddress.parse("gpuadm@gpu1.example:2222") == SshAddress(
        "gpu1.example", "gpuadm", 2222
    )
    assert SshAddress.parse("root@[fd00::1]:22") == SshAddress("fd00::1", "root", 22)
    assert SshAddress.parse("gpu1") == SshAddress("gpu1")


@pytest.mark.parametrize(
    "text",
    ["", "@h", "u@", "u@h:", "u@h:0", "u@h:65536", "u@h:x", "u@-oProxyCommand=x", "-u@h", "a b@h",
     "u@h;id", "u@h\n", "u@h/..", "u@" + "h" * 300],
)  # fmt: skip
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="not an address"):
        SshAddress.parse(text)


@given(st.text(max_size=60))
def test_any_text_is_an_address_or_a_usage_error(text: str) -> None:
    try:
        found = SshAddress.parse(text)
    except UsageError:
        return
    assert not found.host.startswith("-")
    assert found.user is None or not found.user.startswith("-")


def test_without_configuration_the_defaults_of_openssh_hold(home: Path) -> None:
    found = at(home, "root@gpu1")
    assert (str(found), found.known_as) == ("root@gpu1:22", "gpu1")
    assert home / ".ssh" / "id_ed25519" in found.identity_files
    assert not found.identities_only and found.jumps == ()
    assert at(home, "gpu1").user == ME
    assert at(home, "root@[fd00::1%lo]:22").host == "fd00::1%lo"


def test_the_first_value_wins_and_the_address_wins_over_all(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEYS", "/keys")
    config = """
        Host gpu*
          HostName %h.example   # a comment
          Port=2200
          User admin
          IdentityFile ~/keys/%r
          IdentitiesOnly yes
        Host *
          Port 22
          User nobody
          IdentityFile "%d/with space"
          IdentityFile ${KEYS}/%n-%p-%u%%
          IdentityFile none
    """
    found = at(home, "gpu1", config)
    assert str(found) == "admin@gpu1.example:2200"
    assert found.known_as == "[gpu1.example]:2200"
    assert found.identity_files == (
        home / "keys" / "admin",
        home / "with space",
        Path(f"/keys/gpu1-2200-{ME}%"),
    )
    assert found.identities_only
    assert str(at(home, "root@gpu1:22", config)) == "root@gpu1.example:22"


def test_patterns_negate_and_brackets_are_plain(home: Path) -> None:
    config = "Host *.example !bad.example\n  Port 1\nHost [g]*\n  Port 2\nHost gpu?\n  Port 3\n"
    assert at(home, "u@good.example", config).port == 1
    assert at(home, "u@bad.example", config).port == 22
    assert at(home, "u@gpu1", config).port == 3


@pytest.mark.parametrize(
    ("criteria", "port"),
    [
        ("all", 1),
        ("host real.example", 1),
        ("host alias", 22),
        ("originalhost alias", 1),
        ("user root", 1),
        ("user root host other", 22),
        ("!user root", 22),
        (f"localuser {ME}", 1),
        ("exec true", 1),
        ('exec "test %h = alias"', 22),
    ],
)
def test_match_looks_at_host_and_user(home: Path, criteria: str, port: int) -> None:
    config = f"Host alias\n  HostName real.example\nMatch {criteria}\n  Port 1\n"
    assert at(home, "root@alias", config).port == port


def test_include_is_read_in_place_and_ends_with_its_block(home: Path) -> None:
    (home / "conf.d").mkdir()
    (home / "conf.d" / "a").write_text("Port 7\nHost other\n  User other\n")
    config = f"Host gpu1\n  Include {home}/conf.d/*\n  User after\nHost *\n  Port 22\n"
    assert str(at(home, "gpu1", config)) == "after@gpu1:7"
    assert str(at(home, "gpu2", config)) == f"{ME}@gpu2:22"


def test_an_include_of_itself_ends_with_an_error(home: Path) -> None:
    with pytest.raises(UsageError, match="ssh refuses the configuration of gpu1") as caught:
        at(home, "gpu1", f"Include {home}/config\n")
    assert "recursive" in caught.value.why


def test_jumps_and_key_alias_are_kept(home: Path) -> None:
    config = "Host gpu1\n  ProxyJump a@j1:2,ssh://j2\n  HostKeyAlias cluster\n"
    found = at(home, "gpu1", config)
    assert found.jumps == (SshAddress("j1", "a", 2), SshAddress("j2"))
    assert found.known_as == "cluster"
    assert at(home, "gpu1", "ProxyJump none\n" + config).jumps == ()


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("ProxyCommand nc %h %p", "ProxyCommand"),
        ("CertificateFile ~/x-cert.pub", "CertificateFile"),
    ],
)
def test_what_we_cannot_honour_is_refused_by_name(home: Path, line: str, name: str) -> None:
    with pytest.raises(UsageError, match=f"{name} is not supported") as caught:
        at(home, "gpu1", f"Host gpu1\n{line}\n")
    assert "gpu1" in caught.value.why


def test_what_does_not_apply_or_is_none_is_no_reason_to_refuse(home: Path) -> None:
    config = "Host other\n  ProxyCommand nc %h %p\nHost *\n  ProxyCommand none\n"
    assert at(home, "gpu1", config).port == 22


@pytest.mark.parametrize("config", ["Port", "Port x", "Port 99999", 'User "open', "\xff"])
def test_a_broken_file_is_a_usage_error_that_names_file_and_line(home: Path, config: str) -> None:
    path = home / "config"
    path.write_bytes(config.encode("latin-1"))
    with pytest.raises(UsageError, match="ssh refuses the configuration of gpu1") as caught:
        resolve(SshAddress.parse("gpu1"), path)
    assert re.search(rf"{path}:? line 1: ", caught.value.why)


def test_without_openssh_the_package_is_named(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(home))
    with pytest.raises(UsageError, match="OpenSSH's client") as caught:
        at(home, "gpu1")
    assert "openssh-client" in caught.value.next


def test_a_client_that_hangs_is_ended(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(home / "bin", "exec sleep 60", monkeypatch)
    monkeypatch.setattr(ssh_config, "READ_S", 0.2)
    with pytest.raises(DeadlineExceeded, match=r"within 0\.2 s"):
        at(home, "gpu1")


def test_what_is_no_answer_is_a_usage_error(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(home / "bin", "echo hello", monkeypatch)
    with pytest.raises(UsageError, match="prints no hostname"):
        at(home, "gpu1")


def test_the_client_gets_arguments_and_no_shell(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(home / "bin", f'printf "%s\\n" "$@" >{home}/args; exit 1', monkeypatch)
    with pytest.raises(UsageError):
        at(home, "gpuadm@gpu1:2222")
    told = (home / "args").read_text().split()
    assert told == [
        *("-G", "-T", "-F", str(home / "config"), "-l", "gpuadm", "-p", "2222", "--", "gpu1"),
    ]
    with pytest.raises(UsageError):
        resolve(SshAddress("gpu1"))
    assert (home / "args").read_text().split() == ["-G", "-T", "--", "gpu1"]
