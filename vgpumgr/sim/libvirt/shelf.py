"""Where volumes are kept: on a host's own disks, or on storage that several hosts see."""

from __future__ import annotations

import json

from vgpumgr.model.codec import from_plain, to_plain
from vgpumgr.model.domain import VolumeFacts
from vgpumgr.sim.durable import Durable

_VOLUME, _DATA = "volume:", "data:"


class Shelf:
    """Volumes by path, each with the XML it was made from, and packed data of those written to."""

    def __init__(self, durable: Durable) -> None:
        self._durable = durable
        self._by_path: dict[str, VolumeFacts] = {}
        for text in durable.under(_VOLUME).values():
            facts = from_plain(VolumeFacts, json.loads(text)["facts"])
            self._by_path[facts.path] = facts

    def at(self, path: str) -> VolumeFacts | None:
        """The volume at a path, or None."""
        return self._by_path.get(path)

    def all(self) -> tuple[VolumeFacts, ...]:
        """Every volume."""
        return tuple(self._by_path.values())

    def xml(self, facts: VolumeFacts) -> str:
        """What it was made from."""
        return str(json.loads(self._durable[_VOLUME + _key(facts)])["xml"])

    def keep(self, facts: VolumeFacts, xml: str) -> None:
        """Keep a volume, or what it has become."""
        self._by_path[facts.path] = facts
        self._durable[_VOLUME + _key(facts)] = json.dumps({"facts": to_plain(facts), "xml": xml})

    def drop(self, facts: VolumeFacts) -> None:
        """Forget a volume with its data."""
        del self._by_path[facts.path]
        del self._durable[_VOLUME + _key(facts)]
        self._durable.pop(_DATA + _key(facts), None)

    def data(self, facts: VolumeFacts) -> str:
        """Its packed data; empty where nothing was written."""
        return self._durable.get(_DATA + _key(facts), "")

    def write(self, facts: VolumeFacts, packed: str) -> None:
        """Keep packed data as its first bytes."""
        self._durable[_DATA + _key(facts)] = packed


def _key(facts: VolumeFacts) -> str:
    return f"{facts.pool}/{facts.name}"
