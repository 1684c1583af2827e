"""Network filters of ours: there before a domain that names them is defined, gone with the last."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from vgpumgr import domainxml
from vgpumgr.engine.steps.step import Step
from vgpumgr.model.domain import OFF
from vgpumgr.model.errors import HostRefused, InUse, NotFound, OutcomeUnknown
from vgpumgr.model.operation import Differs, InState, Observed
from vgpumgr.model.port_rules import PortFilter
from vgpumgr.model.ports import Clock, Host


def make_filters(host: Host, xml: str) -> None:
    """Define the filters of ours that a domain names. Their names say what is in them, so that one
    that is there is the right one; what others made is never touched.
    """
    if "filterref" not in xml:
        return
    for each in domainxml.own_filters(xml):
        host.domains.define_filter(each.name, domainxml.port_filter(each))


def drop_filters_of(host: Host, xml: str, but: str = "") -> None:
    """Forget the filters of ours that this definition named, and no other one does; ``but`` is a
    definition whose filters stay.
    """
    if "filterref" not in xml:
        return
    kept = {each.name for each in domainxml.own_filters(but)} if "filterref" in but else set()
    names = {each.name for each in domainxml.own_filters(xml)} - kept
    if names:
        forget_filters(host, names)


def forget_filters(host: Host, names: Iterable[str]) -> None:
    """Look at every domain of the host, and forget what none names; what is in use stays."""
    mine = frozenset(name for name in names if PortFilter.named(name) is not None)
    for name in sorted(mine - _named(host) if mine else mine):
        with suppress(InUse):
            host.domains.drop_filter(name)


@dataclass(frozen=True, slots=True)
class DropFilters(Step):
    """Forget filters of ours that no domain of the host names any more."""

    names: tuple[str, ...]

    @property
    def summary(self) -> str:
        """A line for people."""
        return f"forget network filter {', '.join(self.names)}"

    def look(self, host: Host) -> Observed:
        """Nothing tells which are left; to do it again does no harm."""
        return Differs("they may be there") if self.names else InState()

    def act(self, host: Host, clock: Clock) -> None:
        """Look at every domain, and forget what none names. One that is in use by then stays."""
        forget_filters(host, self.names)

    def undo(self, host: Host) -> None:
        """What names one again is defined with it."""


def _named(host: Host) -> frozenset[str]:
    """The filters of ours that domains of the host name, as defined and as they run."""
    found: set[str] = set()
    for each in host.domains.list():
        with suppress(NotFound):
            found |= _in(host.domains.xml(each.name), each.name)
        if each.state not in OFF:
            with suppress(NotFound, HostRefused):  # it went off meanwhile
                found |= _in(host.domains.live_xml(each.name), each.name)
    return frozenset(found)


def _in(xml: str, name: str) -> frozenset[str]:
    try:
        return frozenset(each.name for each in domainxml.own_filters(xml))
    except ValueError as error:
        raise OutcomeUnknown(f"domain {name} cannot be understood", why=str(error)) from error
