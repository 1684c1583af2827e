"""A page: a template over the answers of endpoints."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from vgpumgr.access.permission import Permission

Place = Mapping[str, str]
"""What an address says: the names in its path, and the words of its query."""


Asks = Callable[[Place], Mapping[str, Any]]
"""An endpoint's parameters, made of the address."""


def _none(_: Place) -> dict[str, Any]:
    return {}


NO_PARAMETERS: Asks = _none


@dataclass(frozen=True, slots=True)
class PageRead:
    """One read of a page: its answer is ``name`` in the template. ``asked`` makes the endpoint's
    parameters of the address. What the user may not read is None there; the page is refused where
    it is ``needed``. ``instead`` is the endpoint that is read where this one refuses what is asked:
    why it did is under ``refused`` in the answer.
    """

    name: str
    endpoint: str
    asked: Asks = _none
    needed: bool = True
    instead: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page. ``path`` names the parts of its address in braces, ``section`` is its entry in the
    menu; ``template`` shows the answers of ``reads``, and what ``more`` makes of them. A page that
    is ``live`` is read again when something has changed; one that is a ``part`` is put into
    another one, and has no frame. ``permission`` is needed in addition to those of its reads.
    ``trail_of`` is the part of the address, and the filter of the trail, of what may have been
    deleted: the page of what is not there links to its records.
    """

    path: str
    title: str
    template: str
    reads: tuple[PageRead, ...] = ()
    section: str = ""
    live: bool = True
    part: bool = False
    permission: Permission | None = None
    trail_of: str = ""
    more: Callable[[dict[str, Any], Place], Mapping[str, Any]] = field(
        default=lambda _answers, _place: {}
    )


def named(**parts: str) -> Callable[[Place], dict[str, Any]]:
    """Parameters that are parts of the address: ``named(name="host")``."""
    return lambda place: {key: place[part] for key, part in parts.items()}


def listed(**parts: str) -> Callable[[Place], dict[str, Any]]:
    """The same for parameters that are lists of one: ``listed(hosts="host")``."""
    return lambda place: {key: [place[part]] for key, part in parts.items()}
