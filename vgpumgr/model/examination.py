"""A host's set-up as the helper's `examine` read it, and the findings of checks on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from vgpumgr.model.host import HostFacts, HostRecord, UnknownPart


class CheckOutcome(StrEnum):
    """How a check came out. *unknown* is what could not be read, never a guess."""

    OK = "ok"
    WARN = "warn"
    BAD = "bad"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One check and its outcome.

    ``next`` is the command of ours that helps, ``by_hand`` what to type on the host instead.
    """

    check: str
    mark: CheckOutcome
    text: str
    next: str = ""
    by_hand: str = ""

    @property
    def ok(self) -> bool:
        """Does it need no attention? A warning is for whoever reads it."""
        return self.mark in {CheckOutcome.OK, CheckOutcome.WARN}


@dataclass(frozen=True, slots=True)
class Bar:
    """A line of a PCI function's ``resource`` file: where it lies, and IORESOURCE flags."""

    start: int
    end: int
    flags: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitState:
    """A systemd unit in ``systemctl show``'s words; ``load`` is ``not-found`` where there is none.

    ``result`` is of its last run in this boot, ``success`` if there was none.
    """

    load: str
    enabled: str
    active: str
    result: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSetup:
    """What ``examine`` read (docs/helper-protocol.md). None: could not be read, see ``unknown``.

    ``helper`` is the version that answered, ``installed`` the one on the host (empty: none).
    ``user`` is who runs the helper, directly or through sudo; ``sudo_rules`` are his, as
    ``sudo -l`` lists them. ``now`` is Unix time in seconds. ``guest_of`` names the hypervisor
    under the host (empty: none). ``modules`` are loaded, ``available`` are those of interest that
    the kernel has, loaded or not. ``bars`` are by PCI address of each GPU.
    """

    helper: str = ""
    installed: str | None = None
    user: str = ""
    now: float | None = None
    synchronised: bool | None = None
    kernel_line: tuple[str, ...] | None = None
    acpi_tables: tuple[str, ...] | None = None
    iommus: tuple[str, ...] | None = None
    iommu_groups: int | None = None
    intel_ecap: Mapping[str, int] = field(default_factory=dict)
    remapping: bool | None = None
    unsafe_interrupts: bool | None = None
    modules: tuple[str, ...] | None = None
    available: tuple[str, ...] | None = None
    blacklisted: tuple[str, ...] | None = None
    guest_of: str | None = None
    nested: bool | None = None
    sudo_rules: tuple[str, ...] | None = None
    units: Mapping[str, UnitState] | None = None
    pools_at_boot: tuple[str, ...] | None = None
    uefi: bool | None = None
    secure_boot: bool | None = None
    bars: Mapping[str, tuple[Bar, ...]] = field(default_factory=dict)
    unknown: tuple[UnknownPart, ...] = ()

    def why(self, part: str) -> str:
        """Why a part could not be read."""
        reasons = {each.part: each.why for each in self.unknown}
        return reasons.get(part) or reasons.get("examine") or "the helper did not say"


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """The facts that the checks of one host go by.

    ``helper_version`` and ``sudo_rule`` are what the host should have (the rule as ``sudo -l``
    lists it). The host's clock is ``clock_offset_s`` ahead of ours, give or take
    ``clock_within_s``, the half of the call that asked; None where it was not asked.
    """

    record: HostRecord
    facts: HostFacts
    seen: HostSetup
    helper_version: str
    sudo_rule: str
    clock_offset_s: float | None = None
    clock_within_s: float = 0.0
