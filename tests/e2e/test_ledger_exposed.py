"""A ledger that other users can read or change is told, by doctor and by store check."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import strangers
from tests.e2e.support import Cli, host, new_cli

pytestmark = pytest.mark.mainline


@pytest.fixture(scope="module")
def cli() -> Iterator[Cli]:
    with new_cli() as made:
        made.sim_up(host("h1", ("T4", 1)))
        yield made


@pytest.fixture
def ledger(cli: Cli) -> Iterator[Path]:
    path = cli.state / "ledger.sqlite"
    yield path
    path.chmod(0o600)
    path.parent.chmod(0o700)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_fresh_ledger_is_ours_alone_whatever_the_umask(cli: Cli, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        made = tmp_path / "new" / "folder" / "ledger.sqlite"
        cli("--ledger", str(made), "vm", "start", "nothing")
        cli("--ledger", str(made), "quota", "set", "lab", "gpus=1")
    finally:
        os.umask(before)
    assert made.exists()
    files = [each for each in made.parent.iterdir() if each.is_file()]
    assert [mode(each) & 0o037 for each in files] == [0] * len(files)
    assert mode(made.parent) == 0o700


@pytest.mark.parametrize(
    ("bits", "said"),
    [
        (0o666, "others may read and change"),
        (0o604, "others may read"),
        (0o620, "others may change"),
        (0o664, "others may read and change"),
    ],
)
def test_its_mode_is_told(cli: Cli, ledger: Path, bits: int, said: str) -> None:
    ledger.chmod(bits)
    checked = cli("store", "check")
    assert (checked.code, f"{said} {ledger}" in checked.out) == (1, True), checked.out
    assert f"chmod 600 {ledger}" in checked.out
    looked = cli("doctor")
    assert looked.code == 7 and f"{said} {ledger} (its mode is {bits:04o})" in looked.out


def test_its_folder_is_told(cli: Cli, ledger: Path) -> None:
    ledger.parent.chmod(0o777)
    said = f"others may put another ledger into {ledger.parent}"
    assert said in cli.fails(1, "store", "check").out
    assert said in cli.fails(7, "doctor").out


@pytest.mark.parametrize("bits", [0o600, 0o640])
def test_what_is_ours_is_not(cli: Cli, ledger: Path, bits: int) -> None:
    ledger.chmod(bits)
    assert "others may" not in cli.ok("store", "check").out
    assert "others may" not in cli("doctor").out


@pytest.mark.root
def test_another_users_ledger_is_told(cli: Cli, ledger: Path) -> None:
    os.chown(ledger, strangers.UID, -1)
    try:
        assert f"{ledger} is another user's" in cli.fails(1, "store", "check").out
    finally:
        os.chown(ledger, 0, -1)
