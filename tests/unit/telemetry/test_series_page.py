"""docs/metrics.md has every row, every figure and every alert."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from vgpumgr.telemetry.alert_rules import alerts
from vgpumgr.telemetry.contract import FAMILIES

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "metrics.md").read_text()


def test_the_page_is_as_the_code_is() -> None:
    listed = subprocess.run(
        [sys.executable, "tools/list_series.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert listed.returncode == 0, f"{listed.stdout}: run python tools/list_series.py"


def test_everything_is_on_it() -> None:
    for name in (*(each.name for each in FAMILIES), *(each.name for each in alerts())):
        assert f"`{name}`" in PAGE, name
