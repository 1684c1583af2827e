"""What was seen of one host: its probe, and a closer look at what is ours on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vgpumgr.domainxml import Parts
from vgpumgr.model.domain import Ownership
from vgpumgr.model.drift import NotRead
from vgpumgr.model.host import HostFacts


@dataclass(frozen=True, slots=True)
class Defined:
    """A definition as libvirt has it: its parts, and the mark it carries."""

    parts: Parts
    mark: Ownership | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """By VM's name: ``definitions``, and the devices of those that run.

    ``volumes`` by pool and name: is it there? What is in none of them was not looked at, or is
    among ``not_read``.
    """

    facts: HostFacts
    definitions: Mapping[str, Defined] = field(default_factory=dict)
    running_devices: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    volumes: Mapping[tuple[str, str], bool] = field(default_factory=dict)
    not_read: tuple[NotRead, ...] = ()
