"""What a guest's agent tells, as libvirt hands it on; a guest may say anything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import libvirt
import pytest

from tests.unit.virt.test_live_migration import error
from vgpumgr.model.domain import GuestFacts
from vgpumgr.model.errors import HostUnreachable, NotFound
from vgpumgr.virt.libvirt_domains import LibvirtDomains

USERS = libvirt.VIR_DOMAIN_GUEST_INFO_USERS
UNRESPONSIVE = error(libvirt.VIR_ERR_AGENT_UNRESPONSIVE, "QEMU guest agent is not connected")
UNKNOWN_TYPE = error(libvirt.VIR_ERR_INVALID_ARG, "unsupported guest information types")


class FakeDomain:
    """Answers, or raises, by what it is asked for."""

    def __init__(self, told: Mapping[str, Any] | Exception, *, alive: bool = True) -> None:
        self.told = told
        self.alive = alive
        self.asked: list[int] = []

    def lookupByName(self, name: str) -> FakeDomain:  # noqa: N802
        return self

    def connect(self) -> FakeDomain:
        return self

    def isAlive(self) -> int:  # noqa: N802
        return int(self.alive)

    def guestInfo(self, types: int, flags: int) -> Mapping[str, Any]:  # noqa: N802
        self.asked.append(types)
        if isinstance(self.told, Exception):
            raise self.told
        return self.told


def ask(domain: FakeDomain) -> GuestFacts | None:
    return LibvirtDomains(domain).guest("web")


def test_users_are_counted_and_addresses_read() -> None:
    told = {
        "user.count": 2,
        "user.0.name": "ada",
        "if.count": 2,
        "if.0.addr.count": 1,
        "if.0.addr.0.addr": "127.0.0.1",
        "if.1.addr.count": 3,
        "if.1.addr.0.addr": "10.0.0.7",
        "if.1.addr.1.addr": "fe80::1",
        "if.1.addr.2.addr": "2001:db8::7",
    }
    found = ask(FakeDomain(told))
    assert found == GuestFacts(users=2, addresses=("10.0.0.7", "2001:db8::7"))


def test_a_guest_that_lies_is_read_with_limits() -> None:
    told: dict[str, Any] = {"user.count": "many", "if.count": 1 << 31, "if.0.addr.count": 1 << 31}
    told |= {f"if.0.addr.{number}.addr": f"10.0.{number}.1" for number in range(100)}
    told |= {"if.0.addr.0.addr": "\x1b[31m; rm -rf /", "if.0.addr.1.addr": None}
    found = ask(FakeDomain(told))
    assert found is not None and found.users is None
    assert len(found.addresses) <= 16 and all(each.startswith("10.") for each in found.addresses)


def test_an_address_has_no_zone_which_may_be_any_text() -> None:
    told = {"if.count": 1, "if.0.addr.count": 1, "if.0.addr.0.addr": "2001:db8::7%a\r\nb:s:c"}
    found = ask(FakeDomain(told))
    assert found is not None and found.addresses == ("2001:db8::7",)


def test_none_answers_where_there_is_none() -> None:
    assert ask(FakeDomain(UNRESPONSIVE)) is None
    assert ask(FakeDomain(error(libvirt.VIR_ERR_OPERATION_INVALID, "not running"))) is None
    assert ask(FakeDomain(error(libvirt.VIR_ERR_NO_SUPPORT))) is None


def test_an_older_libvirt_is_asked_for_users_alone() -> None:
    domain = FakeDomain(UNKNOWN_TYPE)
    assert ask(domain) is None
    assert len(domain.asked) == 2 and domain.asked[-1] == USERS


def test_no_answer_of_libvirt_is_no_answer_of_the_guest() -> None:
    with pytest.raises(NotFound):
        ask(FakeDomain(error(libvirt.VIR_ERR_NO_DOMAIN)))
    with pytest.raises(HostUnreachable):
        ask(FakeDomain(error(libvirt.VIR_ERR_RPC, "End of file"), alive=False))
