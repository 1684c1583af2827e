"""Documents of kind Calendar: days with names, each once."""

from __future__ import annotations

import pytest

from vgpumgr.model.holiday_calendar import HolidayCalendar
from vgpumgr.spec import SpecError
from vgpumgr.spec.calendar_document import load_calendars

DOCUMENT = """\
apiVersion: vgpumgr/v1
kind: Calendar
name: vienna
days:
  - {day: 2026-12-25, name: Christmas Day}
  - {day: '2026-12-26', name: St Stephen's Day}
"""
DAYS = {"2026-12-25": "Christmas Day", "2026-12-26": "St Stephen's Day"}


def problems(text: str) -> list[str]:
    with pytest.raises(SpecError) as caught:
        load_calendars(text, "c.yaml")
    return [
        f"{each.line}:{each.column} {each.path}: {each.message}" for each in caught.value.problems
    ]


def test_days_are_read_as_yaml_has_them() -> None:
    other = DOCUMENT.replace("vienna", "graz")
    first = HolidayCalendar(name="vienna", days=DAYS)
    second = HolidayCalendar(name="graz", days=DAYS)
    assert load_calendars(f"{DOCUMENT}---\n{other}", "c.yaml") == (first, second)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("'2026-12-26'", "2026-12-25", "6:11 days[1].day: 2026-12-25 is named already"),
        ("2026-12-25", "2026-02-30", "5:11 days[0].day: '2026-02-30' is not a day"),
        ("2026-12-25", "20261225", "5:11 days[0].day: 20261225 is not a day"),
        ("Calendar", "Kalender", "2:7 kind: must be Calendar, not 'Kalender'"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(old: str, new: str, told: str) -> None:
    assert any(told in each for each in problems(DOCUMENT.replace(old, new))), told


def test_a_name_is_of_one_document_and_a_file_holds_one() -> None:
    assert problems(f"{DOCUMENT}---\n{DOCUMENT}") == ["10:7 name: another document has that name"]
    assert problems("# none\n") == ["1:1 : no document with kind: Calendar"]
