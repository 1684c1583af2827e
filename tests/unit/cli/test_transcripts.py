"""What every command prints, as the transcripts in tests/golden/cli have it.

Rewritten with VGPUMGR_REWRITE_GOLDEN=1: review the difference.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.unit.cli.transcripts import Program
from vgpumgr.model.host import Versions
from vgpumgr.model.sim_fleet import SimBoard, SimFleet, SimHost

GOLDEN = Path(__file__).parents[2] / "golden" / "cli"
OLD = Versions(kernel="6.1.0-37-amd64", libvirt="9.0.0", qemu="7.2.22", driver="550.54.16")
NEW = Versions(kernel="6.12.43", libvirt="11.3.0", qemu="10.0.2", driver="580.105.06")


def host(name: str, *boards: SimBoard, versions: Versions = NEW, **fields: object) -> SimHost:
    sizes = {"cpus": 64, "memory_mib": 256 << 10, "versions": versions}
    return SimHost(name=name, boards=boards, **{**sizes, **fields})


FLEET = SimFleet(
    name="tests",
    hosts=(
        host("a40", SimBoard(board="A40")),
        host("amd", SimBoard(board="MI300X", vfs=8)),
        host("mig", SimBoard(board="A100-PCIE-80GB")),
        host("vdi", SimBoard(board="T4", count=2), versions=OLD, pools=("default", "backups")),
    ),
)


_SECRET = re.compile(r"vgm_[\w-]{43}|whsec_[\w+/]{43}=")


@pytest.mark.parametrize("file", sorted(GOLDEN.glob("*.txt")), ids=lambda file: file.stem)
def test_commands_print_what_the_transcript_says(file: Path, tmp_path: Path) -> None:
    program = Program(tmp_path, FLEET)
    said = program.played(file.read_text())
    program.close()
    if os.environ.get("VGPUMGR_REWRITE_GOLDEN"):
        file.write_text(said)
    assert _SECRET.sub("vgm_…", said) == _SECRET.sub("vgm_…", file.read_text())
