"""The documents agree with the code."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

from vgpumgr.app.config import Config
from vgpumgr.spec import load

ROOT = Path(__file__).parents[2]


def test_the_picture_of_the_rooms_is_drawn_from_the_code_as_it_is() -> None:
    drawn = subprocess.run(
        [sys.executable, "tools/draw_rooms.py", "--check"], cwd=ROOT, capture_output=True, text=True
    )
    assert drawn.returncode == 0, f"{drawn.stdout}: run python tools/draw_rooms.py"


def test_every_file_that_a_document_links_to_exists() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
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


def test_every_file_named_on_the_request_page_exists() -> None:
    text = (ROOT / "docs" / "request.md").read_text()
    named = set(re.findall(r"`((?:[a-z_]+/)+[a-z_0-9]+\.(?:py|xml))`", text))
    assert len(named) > 12
    for name in named:
        places = [ROOT / name, ROOT / "vgpumgr" / name]
        assert any(place.is_file() for place in places), name
