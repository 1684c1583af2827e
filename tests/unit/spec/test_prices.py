"""``kind: PriceBook``: what is read, and what is refused with its place."""

from __future__ import annotations

import pytest

from vgpumgr.model.showback import PriceBook
from vgpumgr.spec import SpecError
from vgpumgr.spec.price_document import load_prices

DOCUMENT = """\
apiVersion: vgpumgr/v1
kind: PriceBook
from: 2026-01-01T01:00:00+01:00
currency: EUR
prices:
  - {model: A40, gpu_hour: "2.40"}
  - {model: "*", gpu_hour: "1"}
"""


def problems(text: str) -> list[str]:
    with pytest.raises(SpecError) as caught:
        load_prices(text, "p.yaml")
    return [
        f"{each.line}:{each.column} {each.path}: {each.message}" for each in caught.value.problems
    ]


def test_documents_are_read_in_their_order() -> None:
    later = DOCUMENT.replace("2026", "2027").replace("EUR", "JPY\ndecimals: 0")
    first, second = load_prices(f"{DOCUMENT}---\n{later}", "p.yaml")
    prices = {"A40": "2.40", "*": "1"}
    assert first == PriceBook(begins_at=1767225600.0, currency="EUR", gpu_hour=prices)
    assert (second.begins_at, second.currency, second.decimals) == (1798761600.0, "JPY", 0)
    assert load_prices(DOCUMENT.encode(), "p.yaml") == (first,)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("PriceBook", "Pricebook", "2:7 kind: must be PriceBook, not 'Pricebook'"),
        ("T01:00:00+01:00", "", "3:7 from: '2026-01-01' is not a time with its zone"),
        ("+01:00", ".5Z", "3:7 from: '2026-01-01T01:00:00.5Z' must be a whole second"),
        ("EUR", "Euro", "4:11 currency: 'Euro' is not a currency"),
        ('"2.40"', "2.40", '6:28 prices[0].gpu_hour: must be text: write "2.4"'),
        ('"2.40"', '"-1"', "6:28 prices[0].gpu_hour: '-1' is not a price"),
        ('"2.40"', '"1e3"', "6:28 prices[0].gpu_hour: '1e3' is not a price"),
        ('"*"', "A40", "7:13 prices[1].model: A40 has a price already"),
        ("currency: EUR\n", "", "1:1 currency: is missing"),
        ("gpu_hour", "gpu_hours", "unknown key; did you mean gpu_hour?"),
        ("currency: EUR", "currency: EUR\ndecimals: 7", "5:11 decimals: must be at most 6"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(old: str, new: str, told: str) -> None:
    assert any(told in each for each in problems(DOCUMENT.replace(old, new))), told


def test_two_documents_that_begin_at_once_are_refused() -> None:
    same = DOCUMENT.replace("2026-01-01T01:00:00+01:00", "2026-01-01T00:00:00Z")
    assert problems(f"{DOCUMENT}---\n{same}") == ["11:7 from: another document begins then"]


@pytest.mark.parametrize("text", ["", "[]", "1", "a: 1", "\x00"])
def test_what_is_no_such_document_is_refused(text: str) -> None:
    assert problems(text)


def test_what_is_no_text_is_refused() -> None:
    with pytest.raises(SpecError, match="not UTF-8"):
        load_prices(b"\xff", "p.yaml")
