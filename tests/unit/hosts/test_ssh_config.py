"""Where an address leads under the user's SSH configuration."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vgpumgr.hosts.ssh.ssh_config import SshAddress, SshTarget, resolve
from vgpumgr.model.errors import UsageError


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("LOGNAME", "me")
    (tmp_path / ".ssh").mkdir()
    return tmp_path


def at(home: Path, address: str, config: str = "") -> SshTarget:
    path = home / ".ssh" / "config"
    path.write_text(config)
    return resolve(SshAddress.parse(address), (path, home / "nosuch"))


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
    assert found.identity_files[0] == home / ".ssh" / "id_ed25519"
    assert not found.identities_only and found.jumps == ()
    assert at(home, "gpu1").user == "me"


def test_the_first_value_wins_and_the_address_wins_over_all(home: Path) -> None:
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
    """
    found = at(home, "gpu1", config)
    assert str(found) == "admin@gpu1.example:2200"
    assert found.known_as == "[gpu1.example]:2200"
    assert found.identity_files == (home / "keys" / "admin", home / "with space")
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
        ("localuser me", 1),
    ],
)
def test_match_looks_at_host_and_user(home: Path, criteria: str, port: int) -> None:
    config = f"Host alias\n  HostName real.example\nMatch {criteria}\n  Port 1\n"
    assert at(home, "root@alias", config).port == port


def test_include_is_read_in_place_and_ends_with_its_block(home: Path) -> None:
    (home / ".ssh" / "conf.d").mkdir()
    (home / ".ssh" / "conf.d" / "a").write_text("Port 7\nHost other\n  User other\n")
    config = "Host gpu1\n  Include conf.d/*\n  User after\nHost *\n  Port 22\n"
    assert str(at(home, "gpu1", config)) == "after@gpu1:7"
    assert str(at(home, "gpu2", config)) == "me@gpu2:22"


def test_an_include_of_itself_ends_with_an_error(home: Path) -> None:
    with pytest.raises(UsageError, match="nested too deep"):
        at(home, "gpu1", "Include config\n")


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
        ("Match exec true", "Match exec"),
    ],
)
def test_what_we_cannot_honour_is_refused_by_name(home: Path, line: str, name: str) -> None:
    with pytest.raises(UsageError, match=f"config:2: {name}"):
        at(home, "gpu1", f"Host gpu1\n{line}\n")


def test_what_does_not_apply_or_is_none_is_no_reason_to_refuse(home: Path) -> None:
    config = "Host other\n  ProxyCommand nc %h %p\nHost *\n  ProxyCommand none\n"
    assert at(home, "gpu1", config).port == 22


@pytest.mark.parametrize("config", ["Port", "Port x", "Port 99999", 'User "open', "\xff"])
def test_a_broken_file_is_a_usage_error(home: Path, config: str) -> None:
    path = home / ".ssh" / "config"
    path.write_bytes(config.encode("latin-1"))
    with pytest.raises(UsageError):
        resolve(SshAddress.parse("gpu1"), (path,))
