"""An ETag is never newer than what it came with: a change that was not seen is never undone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from tests.api.inside import Inside, Said
from tests.api.markers import BlueAsks, blue_asks
from tests.two_tenants import BLUE, OPERATOR
from vgpumgr.api.live_answers import LiveAnswers
from vgpumgr.model.role_binding import EVERY_TENANT, Role


@pytest.fixture(scope="module")
def asks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BlueAsks]:
    with blue_asks(tmp_path_factory.mktemp("tags")) as made:
        made.inside.bind(OPERATOR, Role.OPERATOR, EVERY_TENANT)
        yield made


def cordon(inside: Inside, cordoned: bool) -> None:
    """Another process does that."""
    host = inside.ledger.host("h1")
    inside.ledger.update_host(replace(host, cordoned=cordoned))


def shown(inside: Inside) -> Said:
    secret = inside.token(OPERATOR, Role.OPERATOR, EVERY_TENANT)
    return inside.ask("GET", "/v1/hosts/h1", secret)


def test_an_answer_that_was_kept_has_no_newer_tag(asks: BlueAsks) -> None:
    inside, ticks = asks.inside, count(0, 1)
    inside.service.answers = LiveAnswers(inside.ledger.version, lambda: next(ticks))
    before = shown(inside)
    cordon(inside, True)
    after = shown(inside)
    assert after.headers["etag"] != before.headers["etag"]
    assert (before.body["cordoned"], after.body["cordoned"]) == (False, True)


def test_a_change_while_an_answer_is_made_is_not_in_its_tag(
    asks: BlueAsks, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = asks.inside
    cordon(inside, False)
    answer = inside.service.answers.answer

    def overtaken(*given: Any, **named: Any) -> Any:
        made = answer(*given, **named)
        cordon(inside, True)
        return made

    monkeypatch.setattr(inside.service.answers, "answer", overtaken)
    seen = shown(inside)
    monkeypatch.undo()
    assert (seen.body["cordoned"], shown(inside).body["cordoned"]) == (False, True)
    assert seen.headers["etag"] != shown(inside).headers["etag"]


def test_what_is_not_there_has_none(asks: BlueAsks) -> None:
    said = asks.inside.ask("GET", f"/v1/vms/{BLUE}-none", asks.secret)
    assert said.status == 404 and "etag" not in said.headers
