"""docs/driver-behaviour.md names every case that holds a paragraph, and no other."""

from __future__ import annotations

import re
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.contract import backup_cases, disk_cases, plugged_disk_cases
from tests.contract.bench import Cases
from tests.contract.simulated.moves import PAIRS
from tests.contract.simulated.runs import RUNS

HERE = Path(__file__).parent
TABLE = HERE.parents[1] / "docs" / "driver-behaviour.md"
ROW = re.compile(r"\| (\d+\.\d+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|")
NAME = re.compile(r"`(\w+)\.(\w+)`")

Held = set[tuple[str, str]]


def lists() -> dict[str, list[Cases[Any]]]:
    """Every list of cases, by the file's name without ``_cases``."""
    found = {}
    for file in sorted(HERE.glob("*_cases.py")):
        module = import_module(f"tests.contract.{file.stem}")
        values = vars(module).values()
        found[file.stem.removesuffix("_cases")] = [v for v in values if isinstance(v, Cases)]
    return found


def held_by_cases() -> Held:
    return {
        (paragraph, f"{kind}.{case}")
        for kind, all_of_kind in lists().items()
        for cases in all_of_kind
        for case, paragraphs in cases.paragraphs.items()
        for paragraph in paragraphs
    }


def rows() -> list[tuple[str, str]]:
    """Paragraph and the cases named in it."""
    return [(found.group(1), found.group(4)) for found in map(ROW.match, lines()) if found]


def lines() -> list[str]:
    return TABLE.read_text().splitlines()


def test_the_table_and_the_cases_say_the_same() -> None:
    table = {
        (paragraph, f"{kind}.{case}")
        for paragraph, cases in rows()
        for kind, case in NAME.findall(cases)
    }
    assert table - held_by_cases() == set(), "named in the table, held by no case"
    assert held_by_cases() - table == set(), "held by a case, missing in the table"


def test_every_row_is_held_by_a_case() -> None:
    assert [paragraph for paragraph, cases in rows() if not NAME.search(cases)] == []
    assert len(rows()) == sum(line.startswith("| ") and line[2].isdigit() for line in lines())


def test_rows_that_hold_for_some_branches_name_them() -> None:
    """R575 brought modes of single GPU instances, R595 instances that a vGPU is told."""
    told = {found.group(1): found.group(2) for found in map(ROW.match, lines()) if found}
    assert "R575" in told["6.7"]
    assert "R575" in told["7.15"]
    assert "R595" in told["6.8"]


def test_paragraphs_are_numbered_one_by_one() -> None:
    numbers = [tuple(map(int, paragraph.split("."))) for paragraph, _ in rows()]
    assert numbers == sorted(numbers)
    sections = Counter(section for section, _ in numbers)
    for section, count in sections.items():
        assert [n for s, n in numbers if s == section] == list(range(1, count + 1))


def test_every_list_runs_on_a_simulated_host() -> None:
    running = {id(cases) for run in RUNS for cases in (*run.lists, *run.boots)}
    running |= {id(cases) for cases in (*disk_cases.LISTS, *backup_cases.LISTS)}
    running.add(id(plugged_disk_cases.CASES))
    running |= {id(cases) for pair in PAIRS for cases in pair.lists}
    idle = [kind for kind, found in lists().items() for cases in found if id(cases) not in running]
    assert idle == []


def test_no_two_cases_of_a_kind_share_a_name() -> None:
    for kind, found in lists().items():
        names = Counter(name for cases in found for name in cases.paragraphs)
        assert [name for name, count in names.items() if count > 1] == [], kind
