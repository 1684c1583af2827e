"""What would help, against brute force: all that is said is true, and nothing cheaper is missed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.test_placement_properties import fleets, host_fits, host_supplies, requests
from vgpumgr.model.supply import Fleet, HostSupply
from vgpumgr.model.vm import VmSpec
from vgpumgr.placement.whatif_suggestions import Alternative, ChangeKind, easier, suggest


def fits(fleet: Fleet, request: VmSpec) -> bool:
    return any(host_fits(fleet, host, request) for host in fleet.hosts)


@settings(max_examples=100, deadline=None)
@given(fleets(), requests())
def test_of_every_kind_the_first_request_that_fits_is_named(fleet: Fleet, request: VmSpec) -> None:
    expected: dict[ChangeKind, str] = {}
    for each in easier(request, fleet):
        if each.kind not in expected and fits(fleet, each.request):
            expected[each.kind] = each.text
    found = suggest(fleet, request)
    assert {change.kind: change.text for change in found} == expected
    assert [change.kind for change in found] == [kind for kind in ChangeKind if kind in expected]
    for change in found:
        told = [each.request for each in easier(request, fleet) if each.text == change.text]
        host = next(host for host in fleet.hosts if host.name == change.host)
        assert any(host_fits(fleet, host, each) for each in told)


@st.composite
def alternatives(draw: st.DrawFn) -> tuple[Fleet, list[Alternative]]:
    """Hosts that are otherwise than in the fleet; some because a VM is stopped."""
    fleet = draw(fleets())
    found = []
    for number in range(draw(st.integers(1, 3))):
        name = draw(st.sampled_from([host.name for host in fleet.hosts]))
        vm = draw(st.none() | requests())
        found.append(
            Alternative(
                kind=ChangeKind.STOP if vm else ChangeKind.LAYOUT,
                text=f"change {number}",
                host=replace(draw(host_supplies(name)), vm_labels=()),
                stopped=vm and replace(vm, name=f"vm-{number}"),
            )
        )
    return fleet, found


@settings(max_examples=100, deadline=None)
@given(alternatives(), requests())
def test_hosts_that_are_otherwise_are_judged_as_brute_force_does(
    given_: tuple[Fleet, list[Alternative]], request: VmSpec
) -> None:
    fleet, ways = given_
    request = replace(request, affinity=replace(request.affinity, together_with={}))
    ways = [_with_lone_wishes(each) for each in ways]
    found = suggest(fleet, request, lambda: [[each] for each in ways])
    kinds = {ChangeKind.LAYOUT, ChangeKind.STOP, ChangeKind.MOVE}
    alone = {c.kind: (c.text, c.host) for c in found if c.kind in kinds and " and " not in c.text}
    expected: dict[ChangeKind, tuple[str, str]] = {}
    for kind, text, host in _brute(fleet, request, ways):
        expected.setdefault(kind, (text, host))
    assert alone == expected


def _with_lone_wishes(each: Alternative) -> Alternative:
    """Whether a group is founded is not asked here."""
    if each.stopped is None:
        return each
    wishes = replace(each.stopped.affinity, together_with={})
    return replace(each, stopped=replace(each.stopped, affinity=wishes))


def _brute(
    fleet: Fleet, request: VmSpec, ways: list[Alternative]
) -> Iterator[tuple[ChangeKind, str, str]]:
    for each in ways:
        otherwise = Fleet(hosts=tuple(_instead(host, each.host) for host in fleet.hosts))
        if not host_fits(otherwise, each.host, request):
            continue
        yield each.kind, each.text, each.host.name
        if each.stopped is None:
            continue
        for host in fleet.hosts:
            if host.name != each.host.name and host_fits(fleet, host, each.stopped):
                text = f"with VM {each.stopped.name} moved to {host.name}"
                yield ChangeKind.MOVE, text, each.host.name
                break


def _instead(host: HostSupply, other: HostSupply) -> HostSupply:
    return other if host.name == other.name else host
