"""The three answers of a look. ``Unknown`` can never become a step."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class InState:
    """The host is in the wanted state."""


@dataclass(frozen=True, slots=True)
class Differs:
    """The host is not in the wanted state; ``what`` says how."""

    what: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """Could not be read; ``why`` says the cause."""

    why: str


Observed = InState | Differs | Unknown
