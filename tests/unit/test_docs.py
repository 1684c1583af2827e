"""The documents agree with the code."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from vgpumgr.app.config import Config
from vgpumgr.spec import load

ROOT = Path(__file__).parents[2]


def test_the_picture_of_the_rooms_is_drawn_from_the_code_as_it_is() -> None:
    drawn = subprocess.run(
        [sys.executable, "tools/draw_rooms.py", "--check"], cwd=ROOT, capture_output=True, text=True
    )
    assert drawn.returncode == 0, f"{drawn.stdout}: run python tools/draw_rooms.py"


def test_every_file_that_a_document_links_to_exists() -> None:
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]:
        for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.name} links to {link}"


def test_every_page_is_in_the_list_of_pages() -> None:
    listed = set(re.findall(r"\]\(([\w-]+\.md)\)", (ROOT / "docs" / "README.md").read_text()))
    assert listed == {page.name for page in (ROOT / "docs").glob("*.md")} - {"README.md"}


def test_every_setting_is_on_its_page() -> None:
    listed = re.findall(r"(?m)^\| `(\w+)` \|", (ROOT / "docs" / "settings.md").read_text())
    assert sorted(listed) == sorted(field.name for field in fields(Config))


def test_the_demo_makes_as_many_vms_as_its_file_says() -> None:
    text = (ROOT / "examples" / "demo" / "vms.yaml").read_text()
    said = re.match(r"# (\d+) VMs,", text)
    made = len(load(text.encode(), "vms.yaml").vms)
    assert said is not None
    assert int(said[1]) == made


MADE_UP = {"tests/golden/domain/panic.yaml", "xml-templates/domain/panic.xml"}
"""What a walk-through makes."""


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/architecture.md", "docs/request.md"])
def test_every_path_on_a_page_for_developers_exists(page: str) -> None:
    text = (ROOT / page).read_text()
    paths = re.findall(r"`((?:[a-z0-9_.-]+/)+(?:[a-z0-9_.-]+)?|[a-z0-9_]+\.py)`", text)
    assert len(paths) > 12
    rooms = [path for path in (ROOT / "vgpumgr").glob("*/") if path.is_dir()]
    places = [ROOT, ROOT / "docs", ROOT / "vgpumgr", *rooms]
    missing = {path for path in paths if not any((place / path).exists() for place in places)}
    assert missing <= MADE_UP


def test_every_test_that_contributing_names_exists() -> None:
    named = set(re.findall(r"`(test_\w+)`", (ROOT / "CONTRIBUTING.md").read_text()))
    assert len(named) > 10
    tests = "".join(file.read_text() for file in (ROOT / "tests").rglob("test_*.py"))
    assert sorted(name for name in named if f"def {name}(" not in tests) == []


def test_every_test_that_the_threat_model_names_exists() -> None:
    named = set(re.findall(r"`(test_\w+)`", (ROOT / "SECURITY.md").read_text()))
    assert len(named) > 40
    tests = "".join(file.read_text() for file in (ROOT / "tests").rglob("test_*.py"))
    assert sorted(name for name in named if f"def {name}(" not in tests) == []


def test_what_the_threat_model_links_to_exists() -> None:
    text = (ROOT / "SECURITY.md").read_text()
    for page, heading in re.findall(r"\]\(([^)#:]+)(?:#([\w-]+))?\)", text):
        titles = re.findall(r"(?m)^#+ (.*)$", (ROOT / page).read_text())
        assert not heading or heading in {_anchor(title) for title in titles}, (page, heading)


def _anchor(title: str) -> str:
    """``Session activity`` → ``session-activity``."""
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")
