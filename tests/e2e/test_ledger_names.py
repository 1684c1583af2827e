"""A ledger by several names: whichever is typed, its locks are the same, or it is refused."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.support import Cli, new_cli
from tests.unit.store import values
from vgpumgr.model.operation import OperationState
from vgpumgr.store import SqlLedger

pytestmark = pytest.mark.mainline


@pytest.fixture
def cli() -> Iterator[Cli]:
    with new_cli() as found:
        yield found


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[SqlLedger]:
    """A ledger in which this process works on one operation."""
    (tmp_path / "real").mkdir()
    ledger = values.fleet(tmp_path / "real" / "ledger.sqlite")
    ledger.reserve(values.start(vms=[values.vm("a")]))
    yield ledger
    values.close_all()


def of_the_file(real: Path, folder: Path) -> Path:
    """A symbolic link to the file."""
    link = folder / "link.sqlite"
    link.symlink_to(real)
    return link


def of_the_folder(real: Path, folder: Path) -> Path:
    """A symbolic link to the file's folder."""
    (folder / "link").symlink_to(real.parent)
    return folder / "link" / real.name


links = pytest.mark.parametrize("linked", [of_the_file, of_the_folder])


@links
def test_a_link_meets_the_worker_of_an_operation(
    cli: Cli, ledger: SqlLedger, tmp_path: Path, linked: Callable[[Path, Path], Path]
) -> None:
    link = str(linked(tmp_path / "real" / "ledger.sqlite", tmp_path))
    [operation] = ledger.operations()
    ran = cli("--ledger", link, "operation", "undo", operation.id)
    assert ran.code == 4, ran.out
    [after] = ledger.operations()
    assert after.state is OperationState.RUNNING
    assert ledger.claim_operation(operation.id)


@links
def test_a_link_meets_serve_and_a_restore_waits_for_it(
    cli: Cli, ledger: SqlLedger, tmp_path: Path, linked: Callable[[Path, Path], Path]
) -> None:
    link = str(linked(tmp_path / "real" / "ledger.sqlite", tmp_path))
    assert ledger.claim("serve")
    ran = cli("--ledger", link, "serve", "--once")
    assert (ran.code, "another `vgpumgr serve`" in ran.err) == (4, True), ran.out + ran.err
    cli.ok("--ledger", link, "store", "backup", str(tmp_path / "b"))
    ran = cli("--ledger", link, "store", "restore", str(tmp_path / "b"), "-y")
    assert (ran.code, "the ledger is in use" in ran.err) == (4, True), ran.out + ran.err


def test_a_second_name_of_the_same_file_is_refused(
    cli: Cli, ledger: SqlLedger, tmp_path: Path
) -> None:
    os.link(tmp_path / "real" / "ledger.sqlite", tmp_path / "other.sqlite")
    for name in ("other.sqlite", "real/ledger.sqlite"):
        ran = cli("--ledger", str(tmp_path / name), "vm", "list")
        assert (ran.code, "under 2 names" in ran.err) == (4, True), ran.out + ran.err
    assert "-samefile" in ran.err
    (tmp_path / "other.sqlite").unlink()
    cli.ok("--ledger", str(tmp_path / "real" / "ledger.sqlite"), "vm", "list")


def test_what_replaces_a_broken_ledger_waits_until_nobody_works_with_it(
    cli: Cli, ledger: SqlLedger, tmp_path: Path
) -> None:
    path = tmp_path / "real" / "ledger.sqlite"
    cli.ok("--ledger", str(path), "store", "backup", str(tmp_path / "b"))
    values.close_all()
    worker = values.open_ledger(path)
    assert worker.claim("serve")
    worker._database.close()
    path.write_bytes(b"no database at all")
    ran = cli("--ledger", str(path), "store", "restore", str(tmp_path / "b"), "-y")
    assert ran.code == 4, ran.out + ran.err
    assert path.read_bytes() == b"no database at all"
    worker.release("serve")
    cli.ok("--ledger", str(path), "store", "restore", str(tmp_path / "b"), "-y")


def test_who_has_a_ledger_open_notices_that_it_was_replaced(
    cli: Cli, ledger: SqlLedger, tmp_path: Path
) -> None:
    path = tmp_path / "real" / "ledger.sqlite"
    cli.ok("--ledger", str(path), "store", "backup", str(tmp_path / "b"))
    shutil.move(tmp_path / "b", path)
    with pytest.raises(Exception, match="was replaced") as caught:
        ledger.reserve(values.start(vms=[values.vm("late")]))
    assert getattr(caught.value, "code", "") == "ledger.claim-lost"


def mounted(mount: str, *argv: str) -> subprocess.CompletedProcess[str]:
    """Run a command where this is mounted, for it alone."""
    words = " ".join((sys.executable, "-m", "vgpumgr", *argv))
    script = f"mount --make-rprivate / && {mount} && exec {words}"
    return subprocess.run(
        ["unshare", "--mount", "sh", "-c", script],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.root
@pytest.mark.thorough
def test_a_bind_mount_of_the_folder_meets_the_same_locks(ledger: SqlLedger, tmp_path: Path) -> None:
    real, other = tmp_path / "real", tmp_path / "other"
    other.mkdir()
    [operation] = ledger.operations()
    ran = mounted(
        f"mount --bind {real} {other}",
        *("--ledger", f"{other}/ledger.sqlite", "operation", "undo", operation.id),
    )
    assert ran.returncode == 4, ran.stdout + ran.stderr


@pytest.mark.root
@pytest.mark.thorough
def test_a_bind_mount_of_the_file_alone_is_refused(ledger: SqlLedger, tmp_path: Path) -> None:
    other = tmp_path / "other.sqlite"
    other.touch()
    [operation] = ledger.operations()
    ran = mounted(
        f"mount --bind {tmp_path}/real/ledger.sqlite {other}",
        *("--ledger", str(other), "operation", "undo", operation.id),
    )
    assert (ran.returncode, "mounted as a single file" in ran.stderr) == (4, True), ran.stderr
    [after] = ledger.operations()
    assert after.state is OperationState.RUNNING
