"""Costs: the prices of each time, no price left to a guess, and amounts that add up."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.showback.histories import SECOND, Held, gpu, histories, history
from vgpumgr.model.errors import Conflict
from vgpumgr.model.showback import PriceBook, ReportBy, Span, UsageHistory, UsageKey
from vgpumgr.showback.focus_rows import FOCUS_COLUMNS, FocusBill
from vgpumgr.showback.priced_usage import (
    PricedLine,
    PriceMissing,
    apportioned,
    priced,
    priced_spans,
    summed,
)
from vgpumgr.showback.usage_count import UsageCount

HOUR = 3600 * SECOND
MANDATORY = {
    *("BillingAccountId", "BillingAccountName", "BillingCurrency", "BillingPeriodStart"),
    *("BillingPeriodEnd", "ChargePeriodStart", "ChargePeriodEnd", "ChargeCategory", "ChargeClass"),
    *("ChargeDescription", "ServiceCategory", "ServiceName", "ProviderName", "PublisherName"),
    *("InvoiceIssuerName", "PricingQuantity", "PricingUnit", "BilledCost", "EffectiveCost"),
    *("ListCost", "ContractedCost"),
}
MAY_BE_NULL = {"BillingAccountName", "ChargeClass"}


def book(begins_at: float = 0.0, currency: str = "EUR", **prices: str) -> PriceBook:
    return PriceBook(begins_at=begins_at, currency=currency, gpu_hour=prices or {"A40": "2.40"})


def costs(
    found: UsageHistory, books: list[PriceBook], span: Span, by: ReportBy = ReportBy.TENANT
) -> list[PricedLine]:
    count = UsageCount(found, by)
    return [
        line
        for each in priced_spans(books, span)
        for line in priced(count.lines(each.span), each.book)
    ]


def test_each_span_has_the_prices_of_its_time() -> None:
    books = [book(3600.0, A40="4"), book(0.0, A40="2", T4="1"), book(9e9, A40="9")]
    found = history([Held("a", "g1", (0, 1), 1800.0, 5400.0)], gpu())
    red, idle = summed(costs(found, books, Span(0, 2 * HOUR)))
    assert red.cost == Fraction(1, 4) * 2 + Fraction(1, 4) * 4
    assert idle.key is None and red.cost + idle.cost == 2 + 4


def test_a_time_before_the_first_price_book_is_refused() -> None:
    for books, why in (([], "no price book holds"), ([book(60.0)], "begins at 1970-01-01T00:01")):
        with pytest.raises(
            PriceMissing, match="there are no prices from 1970-01-01T00:00:00"
        ) as no:
            priced_spans(books, Span(0, 120 * SECOND))
        assert why in no.value.why
        assert "price apply" in no.value.next


def test_a_model_without_a_price_is_refused_and_named_with_the_time() -> None:
    with pytest.raises(PriceMissing, match="T4 has no price from 1970-01-01T00:00:00") as caught:
        costs(history([], gpu(model="T4")), [book()], Span(0, HOUR))
    assert "price list" in caught.value.next
    any_model = PriceBook(begins_at=0.0, currency="EUR", gpu_hour={"*": "1", "A40": "2"})
    [line] = costs(history([], gpu(model="T4")), [any_model], Span(0, HOUR))
    assert line.cost == 1


def test_a_change_of_currency_needs_two_reports() -> None:
    books = [book(0.0), book(60.0, "USD")]
    with pytest.raises(Conflict, match="EUR to USD at 1970-01-01T00:01:00") as caught:
        priced_spans(books, Span(0, 120 * SECOND))
    assert "--to 1970-01-01T00:01:00.000Z" in caught.value.next
    assert len(priced_spans(books, Span(0, 60 * SECOND))) == 1


_AMOUNTS = st.lists(st.fractions(0, 10**6), max_size=12)


@given(_AMOUNTS, st.integers(0, 6))
def test_rounded_amounts_add_up_to_the_rounded_sum(exact: list[Fraction], decimals: int) -> None:
    told = apportioned(exact, decimals)
    last = Fraction(1, 10**decimals)
    whole = sum(exact, Fraction())
    assert sum(map(Fraction, told)) == round(whole / last) * last
    assert all(abs(Fraction(each) - true) < last for each, true in zip(told, exact, strict=True))
    assert all(each == true for each, true in zip(told, exact, strict=True) if true % last == 0)


def test_what_lost_most_gets_the_last_digit() -> None:
    thirds = [Fraction(1, 3), Fraction(1, 6), Fraction(1, 2)]
    assert apportioned(thirds, 2) == (Decimal("0.33"), Decimal("0.17"), Decimal("0.50"))


@given(histories())
def test_tenants_pools_vms_and_idle_boards_cost_what_the_fleet_costs(
    found: UsageHistory,
) -> None:
    span = Span(0, 20 * SECOND)
    books = [book(0.0, A40="2.40", T4="0.31"), book(7.0, A40="1", T4="0.07")]
    fleet = sum((each.cost for each in costs(found, books, span)), Fraction())
    for by in ReportBy:
        lines = costs(found, books, span, by)
        assert sum((each.cost for each in summed(lines)), Fraction()) == fleet
        rows = FocusBill(account="f-1", span=span).rows(lines)
        told = sum((Decimal(each["BilledCost"]) for each in rows), Decimal())
        assert told == apportioned([fleet], 8)[0]


def test_focus_has_every_mandatory_column_filled() -> None:
    found = history([Held("a", "g1", (0,), 0.0, 1800.0)], gpu(), a="desks")
    lines = costs(found, [book()], Span(0, HOUR), ReportBy.PART)
    used, idle = FocusBill(account="f-1", span=Span(0, HOUR)).rows(lines)
    for row in (used, idle):
        assert tuple(row) == FOCUS_COLUMNS == tuple(sorted(FOCUS_COLUMNS))
        assert all(row[name] for name in MANDATORY - MAY_BE_NULL)
        assert row["BilledCost"] == row["EffectiveCost"] == row["ListCost"] == row["ContractedCost"]
    assert set(FOCUS_COLUMNS) > MANDATORY
    assert (used["BilledCost"], idle["BilledCost"]) == ("0.30000000", "2.10000000")
    assert (used["PricingQuantity"], used["PricingUnit"]) == ("0.125000000", "GPU-Hours")
    assert (used["ChargePeriodStart"], used["ChargePeriodEnd"]) == (
        "1970-01-01T00:00:00Z",
        "1970-01-01T01:00:00Z",
    )
    assert (used["SubAccountId"], used["ResourceId"], used["x_Pool"]) == ("red", "id-a", "desks")
    assert (used["x_Profile"], used["ChargeDescription"]) == ("A40-8Q", "A40-8Q on A40, VM a")
    assert (idle["x_Idle"], idle["ResourceId"], idle["SubAccountId"]) == ("true", "", "")


def test_keys_are_in_order_and_idle_time_is_last() -> None:
    held = [Held("b", "g1", (0,), 0.0, tenant="red"), Held("a", "g1", (1,), 0.0, tenant="blue")]
    lines = summed(costs(history(held), [book()], Span(0, HOUR)))
    assert [each.key for each in lines] == [UsageKey("blue"), UsageKey("red"), None]
