"""Each guard alone keeps its bad thing from happening, and without it the thing happens."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import vgpumgr
from tests.guards import of_ledger
from tests.guards.every import CASES, GUARDS
from tests.guards.registry import Guard, Place, holds, holds_without
from tests.pgserver import PgServer
from vgpumgr.store import open_ledger


@pytest.mark.parametrize(
    ("guard", "store"), [pytest.param(*each, id=f"{each[0].name} {each[1]}") for each in CASES]
)
def test_a_guard_stands_alone(
    guard: Guard, store: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    def place(name: str) -> Place:
        (tmp_path / name).mkdir()
        if store == "sqlite":
            return Place(tmp_path / name, str(tmp_path / name / "ledger.db"))
        server: PgServer = request.getfixturevalue("pg")
        return Place(tmp_path / name, server.database())

    assert holds(guard, place("with")), f"{guard.bad}, though {guard.name} is there"
    assert not holds_without(guard, place("without")), f"nothing shows that {guard.name} is needed"


@pytest.mark.parametrize("where", sorted({each.where for each in GUARDS}))
def test_a_guard_is_where_the_table_says(where: str) -> None:
    file, name = where.split(": ")
    text = (Path(vgpumgr.__file__).parent / file).read_text()
    assert re.search(rf"\b{name.rpartition('.')[2]}\b", text), f"{name} is not in {file}"


def test_names_are_once() -> None:
    assert len({each.name for each in GUARDS}) == len(GUARDS)


def test_a_ledger_is_made_whole_when_nothing_is_taken_away(tmp_path: Path) -> None:
    """What the removals patch is as it was."""
    place = Place(tmp_path, str(tmp_path / "ledger.db"))
    for guard in of_ledger.GUARDS:
        with guard.removed():
            pass
    open_ledger(place.ledger).close()
    of_ledger.two_owners_of_a_unit(place)
