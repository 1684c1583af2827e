"""The map as HTML, host by host: a host that is as it was is not drawn again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from vgpumgr.web.rendering import render

Answer = Mapping[str, Any]
_OF_THE_LOOK = frozenset({"observed_at", "seen_s"})
"""What is another one after every look, and is not drawn."""


@dataclass(frozen=True, slots=True)
class DrawnHost:
    """A host's part of the map, and what it was drawn from."""

    item: Mapping[str, Any]
    html: str


@dataclass(frozen=True, slots=True)
class FleetPicture:
    """The map at one time: its hosts by name, in order, and how much there is of all kinds."""

    hosts: Mapping[str, DrawnHost] = field(default_factory=dict)
    frozen: Mapping[str, Any] | None = None

    def changed_since(self, before: FleetPicture) -> Iterator[tuple[str, str]]:
        """(name, HTML) of each host that is drawn otherwise than before."""
        for name, drawn in self.hosts.items():
            was = before.hosts.get(name)
            if was is not drawn and (was is None or was.html != drawn.html):
                yield name, drawn.html

    def same_hosts(self, other: FleetPicture) -> bool:
        """Does the other one have the same hosts, in the same order?"""
        return list(self.hosts) == list(other.hosts)


def draw(answer: Answer, before: FleetPicture) -> FleetPicture:
    """The map of an answer of ``map.show``; what is as it was ``before`` is taken from there."""
    hosts = {}
    for each in answer["items"]:
        item = {key: value for key, value in each.items() if key not in _OF_THE_LOOK}
        was = before.hosts.get(item["host"])
        if was is not None and was.item == item:
            hosts[item["host"]] = was
        else:
            hosts[item["host"]] = DrawnHost(item, render("map_host.html", {"host": item}))
    return FleetPicture(hosts, answer["frozen"])


def matching(picture: FleetPicture, words: Mapping[str, str]) -> FleetPicture:
    """The part of it that is asked for: hosts whose name has ``host`` in it, GPUs of a ``model``,
    and with ``only`` what has ``free`` slots, ``used`` ones, or a ``problem``.
    """
    text, model, only = (words.get(key, "") for key in ("host", "model", "only"))
    if not (text or model or only):
        return picture
    kept = {
        name: drawn
        for name, drawn in picture.hosts.items()
        if text.lower() in name.lower() and _has(drawn.item, model, only)
    }
    return FleetPicture(kept, picture.frozen)


def _has(host: Mapping[str, Any], model: str, only: str) -> bool:
    gpus = [each for each in host["gpus"] if not model or each["model"] == model]
    match only:
        case "free":
            return (
                any(each["free"] and not each["blocked"] for each in gpus) and not host["blocked"]
            )
        case "used":
            return any(each["usages"] for each in gpus)
        case "problem":
            return bool(host["blocked"]) or any(each["blocked"] for each in gpus)
    return bool(gpus) or not model


def totals(picture: FleetPicture) -> dict[str, int]:
    """How many hosts and GPUs there are, and of their slots: all and free ones, in percent."""
    gpus = [gpu for drawn in picture.hosts.values() for gpu in drawn.item["gpus"]]
    units = sum(each["units"] for each in gpus)
    free = sum(each["free"] for each in gpus)
    return {
        "hosts": len(picture.hosts),
        "gpus": len(gpus),
        "empty": sum(not each["usages"] and not each["blocked"] for each in gpus),
        "taken_percent": round(100 * (units - free) / units) if units else 0,
    }


def models(picture: FleetPicture) -> list[str]:
    """The models of its GPUs."""
    return sorted({g["model"] for d in picture.hosts.values() for g in d.item["gpus"]})
