"""docs/drift.md and the code name the same kinds."""

from __future__ import annotations

import re
from pathlib import Path

from vgpumgr.model.drift import DriftKind

PAGE = Path(__file__).parents[3] / "docs" / "drift.md"
ROW = re.compile(r"^\| `([a-z-]+)` \| (.+) \| (.+) \|$", re.MULTILINE)


def test_every_kind_has_a_row_in_the_order_of_the_code() -> None:
    rows = ROW.findall(PAGE.read_text())
    assert [kind for kind, _, _ in rows] == [str(kind) for kind in DriftKind]
    assert all(meaning.strip() and helps.strip() for _, meaning, helps in rows)
