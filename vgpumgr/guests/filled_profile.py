"""A profile with its parameters filled in: what it installs in one guest, and that guest's checks.

Values are put into the strings of parsed data, never into text that is parsed afterwards: none can
become a key, a command or a file of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from vgpumgr.model.formats import fill_template
from vgpumgr.model.guest import ChosenProfile, GuestCheck, GuestProfile, ProfileParameter
from vgpumgr.model.guest_system import GuestSystem

Secret = Callable[[str], str]
"""The value of a secret by its name."""
_ITEM = "item"


class ProfileError(ValueError):
    """Why a profile cannot be used so; ``parameter`` is the one that it is about."""

    def __init__(self, message: str, parameter: str = "") -> None:
        super().__init__(message)
        self.parameter = parameter


@dataclass(frozen=True, slots=True, kw_only=True)
class FilledProfile:
    """What a profile is for one guest; ``name`` is what messages call it."""

    name: str
    cloud_config: Mapping[str, Any]
    first_boot: Mapping[str, Any]
    checks: tuple[GuestCheck, ...]


def parameters_of(
    profile: GuestProfile, said: Mapping[str, str], facts: Mapping[str, str]
) -> dict[str, str]:
    """Every parameter's value: what was said, else its default, which may name ``facts`` and the
    parameters before it. ProfileError for an unknown one, a wrong value or a missing one.
    """
    if unknown := sorted(said.keys() - profile.parameters.keys()):
        known = ", ".join(profile.parameters) or "none"
        raise ProfileError(f"{profile.name} has no parameter {unknown[0]}: known are {known}")
    values: dict[str, str] = {}
    for name, about in profile.parameters.items():
        value = said.get(name) or fill_template(about.default, {**facts, **values})
        _check(profile, name, about, value)
        values[name] = value
    return values


def _check(profile: GuestProfile, name: str, about: ProfileParameter, value: str) -> None:
    if not value:
        if about.required:
            raise ProfileError(f"{profile.name} needs {name}: {about.text}", name)
        return
    if about.choices and value not in about.choices:
        raise ProfileError(f"{name} of {profile.name} is {' or '.join(about.choices)}", name)
    if about.pattern and not about.secret and re.fullmatch(about.pattern, value) is None:
        raise ProfileError(f"{name} of {profile.name} is not {about.text}", name)


def filled(
    profile: GuestProfile,
    chosen: ChosenProfile,
    system: GuestSystem,
    facts: Mapping[str, str],
    secret: Secret,
) -> FilledProfile:
    """The profile with everything in its place; ``secret`` is asked for values that are secret.

    Checks never hold a secret: they say the secret's name where they name such a parameter.
    """
    plain = parameters_of(profile, chosen.parameters, facts)
    hidden = {name for name, about in profile.parameters.items() if about.secret and plain[name]}
    values = {name: secret(text) if name in hidden else text for name, text in plain.items()}
    put = _Filling({**facts, **values})
    own = system.distribution or str(system.family)
    seen = _Filling({**facts, **plain})
    return FilledProfile(
        name=profile.name,
        cloud_config=put.mapping(profile.cloud_config) if not system.is_windows else {},
        first_boot=put.mapping(profile.first_boot) if system.is_windows else {},
        checks=tuple(
            seen.check(each)
            for each in profile.checks
            if seen.holds(each.when) and (not each.systems or own in each.systems)
        ),
    )


class _Filling:
    """Puts values into data; an item with ``when`` or ``unless`` is there or not."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values

    def holds(self, condition: str) -> bool:
        """``key``: has it a value? ``key=value``: has it this one? Empty: always."""
        if not condition:
            return True
        name, equals, value = condition.partition("=")
        return self._values[name] == value if equals else bool(self._values[name])

    def text(self, text: str) -> str:
        """A string of the data."""
        return fill_template(text, self._values)

    def mapping(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """A mapping, less what is not there."""
        found = ((self.text(key), each) for key, item in data.items() for each in self._item(item))
        return dict(found)

    def check(self, check: GuestCheck) -> GuestCheck:
        """A check, for this guest."""
        return replace(
            check,
            name=self.text(check.name),
            says=self.text(check.says),
            run=tuple(map(self.text, check.run)),
            expect=fill_template(check.expect, {k: re.escape(v) for k, v in self._values.items()}),
        )

    def _item(self, item: Any) -> Iterator[Any]:
        """The item filled in; nothing where its condition does not hold."""
        if isinstance(item, str):
            yield self.text(item)
        elif isinstance(item, list):
            if found := [each for part in item for each in self._item(part)]:
                yield found  # cloud-init warns of an empty one, and a warning fails a guest
        elif isinstance(item, dict) and _ITEM in item:
            unless = item.get("unless", "")
            if self.holds(item.get("when", "")) and not (unless and self.holds(unless)):
                yield from self._item(item[_ITEM])
        elif isinstance(item, dict):
            yield self.mapping(item)
        else:
            yield item
