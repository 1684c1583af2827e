"""Rules on which ports of a guest others reach, as a network filter of libvirt's that is ours.

What it lets through is in the filter's name: VMs with the same rules share one, and a host on
which it is missing can be given it by a definition that names it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

CLEAN_TRAFFIC = "clean-traffic"
"""libvirt's own filter against spoofed MAC, IP and ARP."""
MOST_RULES = 16
_OURS = "vgpumgr"
_CLEAN, _ANY = "clean", "any"
_RULE = re.compile(r"(tcp|udp)[/-](\d{1,5})(?:-(\d{1,5}))?|icmp")
_TOP = 65535


@dataclass(frozen=True, slots=True, order=True)
class PortRule:
    """What reaches the guest: ``tcp`` or ``udp`` to ports from ``first`` to ``last``, or ``icmp``
    (both 0).
    """

    protocol: str
    first: int = 0
    last: int = 0

    @classmethod
    def parse(cls, text: str) -> PortRule:
        """``tcp/22``, ``tcp/8000-8080``, ``udp/53``, ``icmp``; ValueError for anything else."""
        found = _RULE.fullmatch(text)
        if found is None:
            raise ValueError(f"{text!r:.40} is no rule like tcp/22, tcp/8000-8080, udp/53 or icmp")
        if found[1] is None:
            return cls("icmp")
        first, last = int(found[2]), int(found[3] or found[2])
        if not 0 < first <= last <= _TOP:
            raise ValueError(f"{text}: ports are from 1 to {_TOP}, the lower one first")
        return cls(found[1], first, last)

    def __str__(self) -> str:
        return self._text("/")

    def _text(self, before: str) -> str:
        if self.protocol == "icmp":
            return self.protocol
        ports = str(self.first) if self.first == self.last else f"{self.first}-{self.last}"
        return f"{self.protocol}{before}{ports}"

    @property
    def part(self) -> str:
        """It in a filter's name."""
        return self._text("-")


@dataclass(frozen=True, slots=True)
class PortFilter:
    """What reaches a guest, in addition to the answers to what it asked for itself. ``clean``: it
    cannot send as another machine.
    """

    clean: bool
    allow: tuple[PortRule, ...]

    @property
    def name(self) -> str:
        """``vgpumgr.clean.icmp.tcp-22``: the same for the same rules."""
        parts = [each.part for each in sorted(set(self.allow))]
        return ".".join([_OURS, _CLEAN if self.clean else _ANY, *parts])

    @classmethod
    def named(cls, name: str) -> PortFilter | None:
        """The filter of that name; None for the name of one that is not ours."""
        ours, _, rest = name.partition(".")
        first, *parts = rest.split(".")
        if ours != _OURS or first not in {_CLEAN, _ANY}:
            return None
        try:
            return cls(first == _CLEAN, tuple(map(PortRule.parse, parts)))
        except ValueError:
            return None
