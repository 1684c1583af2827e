"""Guests: what a VM's file says of its first boot, profiles with their checks, and its state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenProfile:
    """A profile by its name, with the parameters that the file says; the value of a secret one is
    the secret's name.
    """

    name: str
    parameters: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestSpec:
    """What is made of a guest at its first boot: its account, its settings, its profiles.

    ``password`` and ``product_key`` are names of secrets of the VM's tenant. The guest fails that
    is not ready ``within_s`` seconds after its start.
    """

    profiles: tuple[ChosenProfile, ...] = ()
    user: str = ""
    password: str = ""
    locale: str = ""
    time_zone: str = ""
    product_key: str = ""
    within_s: float = 1800.0

    @property
    def settings(self) -> Mapping[str, str]:
        """What it says for the base of its family, as parameters of that."""
        names = ("user", "password", "locale", "time_zone", "product_key")
        return {name: value for name in names if (value := getattr(self, name))}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileParameter:
    """A parameter of a profile. ``text`` says what it is; ``pattern`` is a regular expression that
    the whole value matches; ``choices`` are all that there are, empty: any. With ``secret`` its
    value is the name of a secret. The value of one that is not said is ``default``.
    """

    text: str
    default: str = ""
    pattern: str = ""
    choices: tuple[str, ...] = ()
    required: bool = False
    secret: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckCause:
    """A known cause of a failed check: the output has ``where``, a regular expression."""

    where: str
    says: str


SETTLE_S = 45.0
"""So long a check may fail after the first boot where its profile says nothing else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestCheck:
    """A program that the guest's agent runs. It must end with 0, and its output match ``expect``
    (empty: anything); otherwise ``says`` is why the guest is not ready, or the first of ``causes``
    whose words are in the output.

    ``quiet``: the end of its output says nothing, and is not told with ``says``.

    ``reads`` names the report that the output is (``cloud-init``, ``first-boot``), which says by
    itself whether the first boot is over and what failed of it; ``quick`` prints the files that
    ``run`` would have read, in a moment also where ``run`` takes minutes. ``when`` is a parameter
    without which there is no such check; ``systems`` are the only ones that have it (empty: all).

    ``settle_s``: the seconds after the first boot in which it may fail (a service is starting)
    before the guest has failed.
    """

    name: str
    run: tuple[str, ...]
    says: str
    expect: str = ""
    causes: tuple[CheckCause, ...] = ()
    quiet: bool = False
    reads: str = ""
    quick: tuple[str, ...] = ()
    when: str = ""
    systems: tuple[str, ...] = ()
    timeout_s: float = 10.0
    settle_s: float = SETTLE_S


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestProfile:
    """Software for guests, as data: what installs it and what shows that it works.

    ``systems`` are the distributions that it is for (``debian``), or ``windows``. ``cloud_config``
    is what it adds to cloud-init's user data, ``first_boot`` what it adds to the first boot of
    Windows (``files`` and ``steps``). ``needs`` are keys that the VM's file must have (``gpus``).
    ``repeats``: it may be chosen several times.
    """

    name: str
    title: str
    systems: tuple[str, ...]
    parameters: Mapping[str, ProfileParameter] = field(default_factory=dict)
    cloud_config: Mapping[str, Any] = field(default_factory=dict)
    first_boot: Mapping[str, Any] = field(default_factory=dict)
    checks: tuple[GuestCheck, ...] = ()
    needs: tuple[str, ...] = ()
    repeats: bool = False


class GuestPhase(StrEnum):
    """How far a guest is. ``unknown``: it is off, or its host did not answer."""

    UNKNOWN = "unknown"
    STARTING = "starting"
    READY = "ready"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestRecord:
    """What is known of a VM's guest. ``why`` is what is not ready yet, or why it failed.

    ``since`` is when the phase began, ``started`` when the guest was first seen running since it
    was off, ``booted`` when its first boot was over then. ``ready_at`` is when it was ready for the
    first time, ``emptied_at`` when its seed was emptied after that. Times are Unix seconds, 0:
    never.
    """

    vm_id: str
    phase: GuestPhase = GuestPhase.UNKNOWN
    why: str = ""
    since: float = 0.0
    started: float = 0.0
    booted: float = 0.0
    ready_at: float = 0.0
    emptied_at: float = 0.0

    def now(self, phase: GuestPhase, why: str, at: float) -> GuestRecord:
        """The record in that phase, whose time goes on where it is the same."""
        since = self.since if phase is self.phase else at
        first = at if phase is GuestPhase.READY and not self.ready_at else self.ready_at
        return replace(self, phase=phase, why=why, since=since, ready_at=first)


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestCommand:
    """A program for a guest's agent to run. It has ``timeout_s``; ``most_bytes`` of what it prints
    are read.
    """

    run: tuple[str, ...]
    timeout_s: float = 10.0
    most_bytes: int = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestAnswer:
    """How a program in a guest ended: its exit status, None where it did not end in time; and what
    it printed on both outputs, the guest's word.
    """

    status: int | None
    output: str = ""


def guest_text(record: GuestRecord | None) -> str:
    """``ready``, ``starting``, ``failed: the NVIDIA driver is not loaded``."""
    if record is None:
        return GuestPhase.UNKNOWN.value
    return f"{record.phase}: {record.why}" if record.why else record.phase.value


class GuestLedger(Protocol):
    """Guests in the ledger."""

    def note_guests(self, records: Sequence[GuestRecord]) -> None:
        """Write down, in one transaction, what is known of guests; of VMs that are gone nothing
        is. The trail tells of each that is in another phase than before.
        """
