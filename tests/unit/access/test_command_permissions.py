"""Every command needs a permission, or is said to need none; docs/access.md has the table."""

from __future__ import annotations

import re
from pathlib import Path

from tests.unit.cli.test_commands import leaves
from vgpumgr.access.command_permissions import (
    COMMAND_PERMISSIONS,
    KIND_PERMISSIONS,
    LOCAL_COMMANDS,
    OPEN_COMMANDS,
)
from vgpumgr.access.permission import Permission

DOC = Path(__file__).parents[3] / "docs" / "access.md"


def test_every_command_needs_a_permission_or_is_said_to_need_none() -> None:
    named = [*COMMAND_PERMISSIONS, *OPEN_COMMANDS, *LOCAL_COMMANDS]
    assert sorted(named) == sorted(" ".join(path) for path in leaves())


def test_every_permission_is_needed_for_something() -> None:
    assert {*COMMAND_PERMISSIONS.values(), *KIND_PERMISSIONS.values()} == set(Permission)


def test_the_docs_have_the_table() -> None:
    rows = re.findall(r"(?m)^\| `([a-z-]+:[a-z]+)` \| (.+?) \|", DOC.read_text())
    told = {name: sorted(re.findall(r"`([a-z -]+)`", commands)) for name, commands in rows}
    assert told == {
        permission.value: sorted(
            command for command, needed in COMMAND_PERMISSIONS.items() if needed is permission
        )
        for permission in Permission
    }
