"""Reports over HTTP: a tenant reads its own, in the numbers that an operator reads of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from tests.api.markers import BlueAsks, blue_asks
from tests.two_tenants import BLUE, OPERATOR, RED
from vgpumgr.model.role_binding import EVERY_TENANT, Role

SINCE, UNTIL = 1_700_000_000, 1_700_036_000
SPAN = f"since={SINCE}&until={UNTIL}"
BOOK = """\
apiVersion: vgpumgr/v1
kind: PriceBook
from: 2023-01-01T00:00:00Z
currency: EUR
prices: [{model: "*", gpu_hour: "0.35"}]
"""
Lines = list[Mapping[str, Any]]


@pytest.fixture(scope="module")
def asks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BlueAsks]:
    with blue_asks(tmp_path_factory.mktemp("reports")) as made:
        yield made


@pytest.fixture(scope="module")
def operator(asks: BlueAsks) -> str:
    asks.inside.bind(OPERATOR, Role.OPERATOR, EVERY_TENANT)
    secret = asks.inside.token(OPERATOR, Role.OPERATOR, EVERY_TENANT)
    body = {"text": BOOK, "source": "prices.yaml"}
    assert asks.inside.ask("POST", "/v1/prices:apply", secret, body).status == 200
    return secret


def of(lines: Lines, tenant: str) -> Lines:
    return [each for each in lines if each["tenant"] == tenant and not each["idle"]]


@pytest.mark.parametrize("by", ["tenant", "vm", "pool"])
@pytest.mark.parametrize("what", ["usage", "cost"])
def test_a_tenant_reads_its_own_lines_as_an_operator_reads_them(
    asks: BlueAsks, operator: str, what: str, by: str
) -> None:
    path = f"/v1/reports/{what}?{SPAN}&by={by}"
    whole, own = (asks.inside.ask("GET", path, each).body for each in (operator, asks.secret))
    assert own["lines"] == of(whole["lines"], BLUE) and own["lines"]
    assert of(whole["lines"], RED) and [each for each in whole["lines"] if each["idle"]]
    for key in ("gpu_hours", *(["amount"] if what == "cost" else [])):
        for report in (whole, own):
            assert Decimal(report[key]) == sum(Decimal(each[key]) for each in report["lines"])
    exact = sum(Fraction(each["gpu_microseconds"]) for each in whole["lines"])
    assert exact == len(asks.inside.ledger.gpus()) * (UNTIL - SINCE) * 10**6
    assert Fraction(whole["gpu_microseconds"]) == exact
    assert RED not in str(own)


def test_focus_rows_are_those_of_the_own_tenant(asks: BlueAsks, operator: str) -> None:
    path = f"/v1/reports/focus?{SPAN}"
    whole, own = (asks.inside.ask("GET", path, each).body for each in (operator, asks.secret))
    assert own["lines"] == [each for each in whole["lines"] if each["SubAccountId"] == BLUE]
    assert own["lines"] and len(own["lines"]) < len(whole["lines"])
    cost = asks.inside.ask("GET", f"/v1/reports/cost?{SPAN}", operator).body["amount"]
    billed = sum(Decimal(each["BilledCost"]) for each in whole["lines"])
    assert round(billed, 2) == Decimal(cost)


def test_prices_are_read_by_tenants_and_set_by_operators_alone(
    asks: BlueAsks, operator: str
) -> None:
    first, book = asks.inside.ask("GET", "/v1/prices", asks.secret).body["items"]
    assert first["until"] == book["begins_at"] == "2023-01-01T00:00:00.000Z"
    assert book["prices"] == [{"model": "*", "gpu_hour": "0.35"}]
    body = {"text": BOOK, "source": "prices.yaml"}
    assert asks.inside.ask("POST", "/v1/prices:apply", asks.secret, body).status == 403
    begins = {"begins_at": "2023-01-01T00:00:00Z"}
    assert asks.inside.ask("POST", "/v1/prices:remove", asks.secret, begins).status == 403
    wrong = {"text": BOOK.replace("EUR", "euro"), "source": "prices.yaml"}
    said = asks.inside.ask("POST", "/v1/prices:apply", operator, wrong)
    assert said.status == 400 and "prices.yaml:4:11: currency" in said.text


def test_a_time_without_prices_and_no_time_at_all_are_refused(
    asks: BlueAsks, operator: str
) -> None:
    first = {"begins_at": "1970-01-01T00:00:00Z"}
    assert asks.inside.ask("POST", "/v1/prices:remove", operator, first).status == 200
    assert asks.inside.ask("POST", "/v1/prices:remove", operator, first).status == 404
    early = "since=1500000000&until=1500000060"
    said = asks.inside.ask("GET", f"/v1/reports/cost?{early}", operator)
    assert (said.status, said.body["code"]) == (404, "not-found.price")
    for span in ("since=2&until=1", "since=1&until=2000000000", ""):
        assert asks.inside.ask("GET", f"/v1/reports/usage?{span}", operator).status in {400, 422}
