"""A real Debian guest from its file to ready, by the product's own checks: one cell per commit.

All of them: ``python -m tests.guests``.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.guests.__main__ import boot
from tests.guests.guest_cells import CELLS, SECRETS
from tests.guests.guest_world import RELEASES, guest_world, missing

# Four minutes of processor time, the disk's making among them: too long for every change.
pytestmark = [
    pytest.mark.release,
    pytest.mark.root,
    pytest.mark.libvirtd,
    pytest.mark.timeout(9000),
]


def of_this_commit() -> tuple[str, str]:
    """A release and a cell, by the commit's hash: all have their turn."""
    argv = ["git", "rev-parse", "HEAD"]
    ran = subprocess.run(argv, cwd=Path(__file__).parent, capture_output=True, text=True)
    number = int(ran.stdout.strip() or "0", 16)
    return RELEASES[number % len(RELEASES)], list(CELLS)[number // len(RELEASES) % len(CELLS)]


def test_a_guest_ends_as_its_profiles_say() -> None:
    if why := missing():
        pytest.skip(why)
    release, name = of_this_commit()
    with guest_world(release) as world:
        world.secrets(SECRETS)
        row = boot(world, release, CELLS[name])
    assert row["as_meant"], row
