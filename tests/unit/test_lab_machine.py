"""What is done by hand on the lab host, tried on this one."""

from __future__ import annotations

import errno
import subprocess
from pathlib import Path

import pytest

from tests.lab.labmachine import LabMachine


class ThisShell:
    """As LabHost's, without SSH."""

    def root(self, command: str, stdin: str = "") -> str:
        done = subprocess.run(
            ["sh", "-c", command], input=stdin, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()


@pytest.fixture
def machine() -> LabMachine:
    return LabMachine(ThisShell())


def test_files_are_written_and_read_as_they_are(machine: LabMachine, tmp_path: Path) -> None:
    file, link = tmp_path / "file", tmp_path / "link"
    file.touch()
    link.symlink_to(file)
    machine.write(str(file), 'it\'s "so"\n')
    assert machine.read(str(file)) == 'it\'s "so"\n'
    assert machine.target(str(link)) == "file"
    assert machine.target(str(file)) == ""
    assert machine.exists(str(link))
    assert not machine.exists(str(tmp_path / "none"))


def test_the_kernels_errno_arrives(machine: LabMachine, tmp_path: Path) -> None:
    for number, path in ((errno.ENOENT, tmp_path / "none"), (errno.EISDIR, tmp_path)):
        with pytest.raises(OSError, match=str(path)) as caught:
            machine.write(str(path), "1")
        assert caught.value.errno == number


def test_a_program_tells_status_and_output(machine: LabMachine) -> None:
    assert machine.run("sh", "-c", "echo said; exit 3") == (3, "said\n")
    with pytest.raises(OSError) as caught:
        machine.run("no-such-program")
    assert caught.value.errno == errno.ENOENT
