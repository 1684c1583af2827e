"""A failing sequence, as hypothesis prints it, as a test that stays."""

from __future__ import annotations

_HEAD = """\
from tests.soak.machine import Soak
from tests.soak.strikes import Kind, Strike


def test_seed_{seed}() -> None:
"""


def frozen_test(seed: int, notes: str) -> str:
    """The text of a test that does the same steps; empty where ``notes`` have none."""
    lines = [line for line in notes.splitlines() if line.startswith(("state", " ", ")"))]
    if not any(line.startswith("state = ") for line in lines):
        return ""
    return _HEAD.format(seed=seed) + "".join(f"    {line}\n" for line in lines)
