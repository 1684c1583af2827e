"""The three answers of a look. ``Unknown`` can never become a step."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class InState:
    """The host is as wanted."""


@dataclass(frozen=True, slots=True)
class Differs:
    """The host is not as wanted; ``what`` says how."""

    what: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """Could not be read; ``why`` says the cause."""

    why: str


Observed = InState | Differs | Unknown
