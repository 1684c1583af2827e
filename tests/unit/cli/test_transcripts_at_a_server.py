"""Every command prints at a server what it prints beside the ledger, by the same transcripts."""

from __future__ import annotations

import difflib
import re
from pathlib import Path

import pytest

from tests.unit.cli.served_program import ServedProgram
from tests.unit.cli.test_transcripts import FLEET, GOLDEN

# Commands (or all of a group) that are not carried out at a server, and why.
LOCAL = {
    "serve": "it is a controller itself",
    "sim": "a simulated fleet is this machine's",
    **dict.fromkeys(
        ("pool connect", "vm connect", "vm console"),
        "another process joins consoles, and the hosts of a transcript are in this one",
    ),
    "store": "it works on the files of a ledger",
    "auth test": "it tries the controller's settings",
    **dict.fromkeys(
        ("audit check", "audit checkpoint", "audit export", "audit key", "audit seal",
         "audit verify"),
        "the trail's seal and its key are files of the controller",
    ),
}  # fmt: skip

# Secrets are drawn by chance; a server keeps requests, which are rows; and what was released in the
# same moment is listed by ids, of which requests have some.
_CHANCE = re.compile(
    r"vgm_[\w-]{43}|whsec_[\w+/]{43}=|\b\d+ rows\b|^ID\d+ .* released$", re.MULTILINE
)


def without_chance(text: str) -> str:
    return _CHANCE.sub("…", text)


@pytest.mark.thorough
@pytest.mark.parametrize("file", sorted(GOLDEN.glob("*.txt")), ids=lambda file: file.stem)
def test_commands_print_the_same_at_a_server(file: Path, tmp_path: Path) -> None:
    program = ServedProgram(tmp_path, FLEET)
    said = program.played(file.read_text())
    program.close()
    said, want = without_chance(said), without_chance(file.read_text())
    assert said == want, "\n".join(difflib.unified_diff(want.splitlines(), said.splitlines(), n=1))
    assert [
        each for each in sorted(program.local) if not {each, each.split()[0]} & LOCAL.keys()
    ] == []
