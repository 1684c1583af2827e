"""Drift: where the ledger and the hosts differ. Plain values; docs/drift.md says what each kind
means."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class DriftKind(StrEnum):
    """What differs; stable words for programs."""

    UNFINISHED = "unfinished"
    DOMAIN_MISSING = "domain-missing"
    DOMAIN_NOT_OURS = "domain-not-ours"
    DOMAIN_TRANSIENT = "domain-transient"
    DOMAIN_ELSEWHERE = "domain-elsewhere"
    DOMAIN_LEFTOVER = "domain-leftover"
    MARK = "mark"
    POWER = "power"
    DEFINITION = "definition"
    ATTACHED = "attached"
    DEVICE_MISSING = "device-missing"
    DEVICE_DIFFERS = "device-differs"
    DEVICE_DRIVER = "device-driver"
    DEVICE_TAKEN = "device-taken"
    INSTANCE_MISSING = "instance-missing"
    PARTITION_INACTIVE = "partition-inactive"
    CLAIM_MISSING = "claim-missing"
    CLAIM_DIFFERS = "claim-differs"
    CLAIM_LEFTOVER = "claim-leftover"
    VOLUME_MISSING = "volume-missing"
    POOL_MISSING = "pool-missing"
    POOL_INACTIVE = "pool-inactive"
    LAYOUT = "layout"
    GPU_MISSING = "gpu-missing"
    GPU_LOST = "gpu-lost"
    GPU_QUARANTINED = "gpu-quarantined"
    GPU_EVIDENCE = "gpu-evidence"
    FOREIGN = "foreign"
    HELPER = "helper"
    REINSTALLED = "reinstalled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """One difference.

    ``subject`` is the thing that differs (``memory``, an mdev's UUID, a claim's unit), ``text`` a
    sentence that names it, ``next`` what to type. ``gpu`` is our id, ``wanted`` and ``found`` are
    words, empty where there is nothing to compare.
    """

    kind: DriftKind
    host: str
    subject: str
    text: str
    next: str
    gpu: str = ""
    vm: str = ""
    wanted: str = ""
    found: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadHost:
    """A part of a host that could not be read: nothing is said of it. ``part`` "" = all of it."""

    host: str
    part: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftReport:
    """What a comparison found, sorted, and how much of the fleet it looked at.

    ``skipped`` are VMs that an operation was working on meanwhile.
    """

    drifts: tuple[Drift, ...] = ()
    not_read: tuple[UnreadHost, ...] = ()
    hosts: int = 0
    vms: int = 0
    skipped: tuple[str, ...] = ()
    rebooted: tuple[str, ...] = ()
