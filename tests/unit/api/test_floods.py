"""What one address floods, another one is not refused for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from tests.api.inside import Inside
from tests.ledgers import new_ledger
from vgpumgr.api import upload_routes
from vgpumgr.api.connections import OpenConnections
from vgpumgr.api.service import ALL_REFUSALS_A_MINUTE, REFUSALS_A_MINUTE
from vgpumgr.api.upload_routes import UploadRoutes
from vgpumgr.model.actor import Actor
from vgpumgr.model.errors import LoginRefused
from vgpumgr.model.history import AccessEvent


@dataclass(eq=False)
class OpenOne:
    """A connection that notes how it was refused."""

    address: str
    refused: list[int] = field(default_factory=list)

    def refuse(self, _error: object, status: int) -> None:
        self.refused.append(status)


def test_who_opens_most_connections_loses_the_oldest_of_them() -> None:
    open_ones = OpenConnections(10)
    quiet = [OpenOne(f"10.0.0.{number}") for number in range(3)]
    flood = [OpenOne("10.9.9.9") for _ in range(100)]
    assert all(open_ones.add(each) for each in (*quiet, *flood))
    assert not any(each.refused for each in quiet)
    assert [each.refused for each in flood] == [[503]] * 93 + [[]] * 7
    late = OpenOne("10.0.0.9")
    for each in flood[93:]:
        open_ones.busy(each)
    assert open_ones.add(late) and quiet[0].refused == [503]


def test_without_an_idle_one_the_new_one_is_refused() -> None:
    open_ones = OpenConnections(1)
    first = OpenOne("10.0.0.1")
    assert open_ones.add(first)
    open_ones.busy(first)
    late = OpenOne("10.0.0.2")
    assert not open_ones.add(late)
    open_ones.remove(late)
    open_ones.remove(first)
    assert open_ones.add(late)


def test_a_flood_of_refusals_hides_no_other_address_s(tmp_path: Path) -> None:
    new_ledger(tmp_path / "ledger.db")
    inside = Inside(tmp_path, tmp_path / "ledger.db")
    try:
        kept: list[str] = []
        ledger = mock.Mock(record_access=lambda kind, text: kept.append(f"{kind} {text}"))
        with mock.patch.dict(vars(inside.app), {"writable_ledger": ledger}):
            for _ in range(3 * REFUSALS_A_MINUTE):
                inside.service.refused(Actor(user="", address="10.9.9.9"), LoginRefused("flood"))
            inside.service.refused(Actor(user="", address="10.0.0.1"), LoginRefused("a guess"))
            assert REFUSALS_A_MINUTE <= kept.count(f"{AccessEvent.REFUSED} flood") < 90
            assert kept[-1] == f"{AccessEvent.REFUSED} a guess"
            for number in range(2 * ALL_REFUSALS_A_MINUTE):
                who = Actor(user="", address=f"10.{number >> 8}.{number & 255}.1")
                inside.service.refused(who, LoginRefused("many"))
            assert len(kept) < 1.5 * ALL_REFUSALS_A_MINUTE
    finally:
        inside.close()


def test_an_upload_ends_with_the_login_that_began_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upload_routes, "HEARTBEAT_S", 0.0)
    monkeypatch.setattr(upload_routes, "PIECE_BYTES", 4)
    written: list[bytes] = []
    known = mock.Mock(side_effect=[mock.Mock(), LoginRefused("the session is over")])
    service: Any = mock.Mock(known=known, for_uploads=None)

    async def stream() -> AsyncIterator[bytes]:
        for _ in range(5):
            yield b"1234"

    request: Any = mock.Mock(stream=stream)
    writer: Any = mock.Mock(write=written.append)
    with pytest.raises(LoginRefused, match="session is over"):
        asyncio.run(UploadRoutes(service)._take(request, writer))
    assert written == [b"1234"], "what came before is kept"
