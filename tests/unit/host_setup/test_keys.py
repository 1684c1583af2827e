"""The controller's key: made once, whoever asks, and only ours to read."""

from __future__ import annotations

import stat
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from vgpumgr.app.bootstrap import host_setup


def test_a_dry_run_makes_no_key(tmp_path: Path) -> None:
    assert host_setup.public_key_if_any(tmp_path / "keys" / "id") == host_setup.NOT_YET
    assert list(tmp_path.iterdir()) == []


def test_the_key_is_made_once_and_is_ours_alone(tmp_path: Path) -> None:
    private = tmp_path / "keys" / "id_ed25519"
    public = host_setup.public_key(private)
    assert public.startswith("ssh-ed25519 ") and public == host_setup.public_key(private)
    assert public == host_setup.public_key_if_any(private)
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    assert stat.S_IMODE(private.parent.stat().st_mode) == 0o700
    assert sorted(each.name for each in private.parent.iterdir()) == [
        "id_ed25519",
        "id_ed25519.pub",
    ]


def test_those_who_start_at_once_get_one_whole_pair(tmp_path: Path) -> None:
    private = tmp_path / "keys" / "id_ed25519"
    with ThreadPoolExecutor(8) as pool:
        publics = set(pool.map(host_setup.public_key, [private] * 8))
    derived = subprocess.run(
        ["ssh-keygen", "-y", "-f", str(private)], capture_output=True, text=True, check=True
    ).stdout.strip()
    assert publics == {derived}
