"""The way to a host, written for OpenSSH and read by it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from vgpumgr.hosts.ssh.routes import openssh_route
from vgpumgr.hosts.ssh.ssh_config import SshTarget

KEY = "ssh-ed25519 AAAA"


def target(host: str, **more: object) -> SshTarget:
    given = {"port": 22, "user": "gpuadm", "identity_files": (Path("/k/id one"),), **more}
    return SshTarget(host=host, **given)  # type: ignore[arg-type]


def as_openssh_reads_it(folder: Path, config: str, name: str) -> dict[str, list[str]]:
    if shutil.which("ssh") is None:
        pytest.skip("no ssh")
    path = folder / "ssh_config"
    path.write_text(config)
    said = subprocess.run(
        ["ssh", "-G", "-F", str(path), name], capture_output=True, text=True, check=True
    ).stdout
    found: dict[str, list[str]] = {}
    for key, _, value in (line.partition(" ") for line in said.splitlines()):
        found.setdefault(key, []).append(value)
    return found


def test_openssh_goes_there_and_takes_no_other_key(tmp_path: Path) -> None:
    way = openssh_route("gpu1", target("10.0.0.1", port=2222), (), KEY, tmp_path)
    read = as_openssh_reads_it(tmp_path, way.config, "gpu1")
    assert (read["hostname"], read["port"], read["user"]) == (["10.0.0.1"], ["2222"], ["gpuadm"])
    assert read["identityfile"] == ["/k/id one"]
    assert read["stricthostkeychecking"] == ["true"] and read["batchmode"] == ["yes"]
    assert read["userknownhostsfile"] == [str(tmp_path / "known_hosts")]
    assert read["globalknownhostsfile"] == ["/dev/null"]
    (alias,) = read["hostkeyalias"]
    assert way.known_hosts == f"{alias} {KEY}\n"
    assert "proxyjump" not in read


def test_jump_hosts_follow_one_another_with_the_users_own_known_hosts(tmp_path: Path) -> None:
    jumps = (target("j1", key_alias="jump"), target("j2"))
    way = openssh_route("gpu1", target("10.0.0.1"), jumps, KEY, tmp_path)
    (last,) = as_openssh_reads_it(tmp_path, way.config, "gpu1")["proxyjump"]
    second = as_openssh_reads_it(tmp_path, way.config, last)
    (first_name,) = second["proxyjump"]
    first = as_openssh_reads_it(tmp_path, way.config, first_name)
    assert (second["hostname"], first["hostname"]) == (["j2"], ["j1"])
    assert first["hostkeyalias"] == ["jump"] and "proxyjump" not in first
    assert str(tmp_path) not in " ".join(first["userknownhostsfile"])
    assert second["stricthostkeychecking"] == ["true"]


def test_a_percent_sign_stays_one(tmp_path: Path) -> None:
    odd = target("10.0.0.1", identity_files=(Path('/k/100%h "x"'),))
    way = openssh_route("gpu1", odd, (), KEY, tmp_path)
    assert '"/k/100%%h \\"x\\""' in way.config
