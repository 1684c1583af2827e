"""Settings: flag, then environment, then ./vgpumgr.yaml, then the user's file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.support import Ran, run_argv
from vgpumgr.app import setting_files

Where = Callable[..., Path]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder, a user's config folder beside it, no system file."""
    (tmp_path / "work").mkdir()
    (tmp_path / "config" / "vgpumgr").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(setting_files, "SYSTEM_FILE", tmp_path / "system.yaml")
    return tmp_path


def ledger_in_use(*flags: str) -> str:
    """The ledger that the program names, as `doctor` prints it."""
    return run_argv("vgpumgr", *flags, "doctor").out.split()[2]


def write(path: Path, text: str, mode: int = 0o644) -> None:
    path.write_text(text)
    path.chmod(mode)


def test_the_strongest_source_wins(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "xdg"))
    assert ledger_in_use() == str(folder / "xdg/vgpumgr/ledger.sqlite")
    write(folder / "system.yaml", f"ledger: {folder}/system")
    assert ledger_in_use() == f"{folder}/system"
    write(folder / "config/vgpumgr/config.yaml", f"ledger: {folder}/user")
    assert ledger_in_use() == f"{folder}/user"
    write(folder / "work/vgpumgr.yaml", f"ledger: {folder}/local")
    assert ledger_in_use() == f"{folder}/local"
    monkeypatch.setenv("VGPUMGR_LEDGER", f"{folder}/environment")
    assert ledger_in_use() == f"{folder}/environment"
    assert ledger_in_use("--ledger", f"{folder}/flag") == f"{folder}/flag"


def test_the_ledger_lies_in_the_state_folder_by_default(folder: Path) -> None:
    assert ledger_in_use("--state-dir", f"{folder}/s") == f"{folder}/s/ledger.sqlite"


def test_a_local_file_that_others_can_write_does_not_count(folder: Path) -> None:
    write(folder / "work/vgpumgr.yaml", f"ledger: {folder}/evil", mode=0o666)
    assert ledger_in_use() != f"{folder}/evil"


@pytest.mark.root
def test_a_local_file_of_somebody_else_does_not_count(folder: Path) -> None:
    path = folder / "work/vgpumgr.yaml"
    write(path, f"ledger: {folder}/evil")
    import os

    os.chown(path, 65534, 65534)
    assert ledger_in_use() != f"{folder}/evil"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("ledgr: x", "unknown setting ledgr"),
        ("policy: best", "best is not a policy"),
        ("connect_timeout_s: soon", "soon is not a number"),
        ("connect_timeout_s: -1", "out of range"),
        ("lanes: 0", "out of range"),
        ("[1, 2]", "not a mapping"),
        ("a: [", "cannot be read"),
        (b"ledger: \xff", "cannot be read"),
        ("ledger: &x [*x]", "not a text or number"),
        ("ledger: {a: b}", "ledger"),
        ("lanes: 1.5", "lanes"),
        ("defrag: {threshold: much}", "defrag_threshold: much is not a share"),
        ("defrag_threshold: 130%", "not between 0% and 100%"),
        ("defrag: 30%", "30% is not a mode"),
        ("# padding\n" * 10_000, "larger than"),
    ],
)
def test_a_bad_setting_is_a_usage_error_that_names_its_source(
    folder: Path, text: str | bytes, says: str
) -> None:
    path = folder / "config/vgpumgr/config.yaml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    failed: Ran = run_argv("vgpumgr", "vm", "list")
    assert failed.code == 2, failed.err
    assert says in failed.err
    assert "config.yaml" in failed.err


def test_a_bad_setting_of_the_environment_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VGPUMGR_LANES", "many")
    failed = run_argv("vgpumgr", "vm", "list")
    assert failed.code == 2
    assert "the environment: lanes: many is not a number" in failed.err
