"""Logins at a directory (LDAP, Active Directory): a user is looked for, and shown to have the
password by a bind; groups are the ones with the user as a member.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from vgpumgr.access.principal import Principal
from vgpumgr.identity.private_file import read_private_file
from vgpumgr.model.actor import LoginMethod
from vgpumgr.model.errors import LoginRefused

MOST_GROUPS = 1000
DEEPEST_GROUPS = 10
"""How many groups lead from a user to the last that is counted."""
LONGEST_PASSWORD = 1000
_AT_ONCE = 50
_NAME = re.compile(r"[^\s\x00-\x1f\x7f]{1,200}")
_SPECIAL = re.compile(r"[\\*()\x00]")
_PLACE = re.compile(r"\{(user|dn)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectorySettings:
    """The settings ``auth.ldap``, but for where the directory is. ``bind_dn`` is the account that
    looks users and groups up. In filters ``{user}`` is the name that was typed, ``{dn}`` the entry
    whose groups are looked for; ``user_name`` and ``group_name`` are the attributes that users and
    groups are called by. ``nested``: also the groups that groups are members of.
    """

    bind_dn: str
    bind_password_file: Path
    user_base: str
    user_filter: str = "(uid={user})"
    user_name: str = "uid"
    group_base: str = ""
    group_filter: str = "(member={dn})"
    group_name: str = "cn"
    nested: bool = False


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of a directory: its distinguished name, and the values of what was asked for."""

    dn: str
    values: tuple[str, ...]


class BindRefused(Exception):
    """The directory does not take that password for that entry; its words say no more."""


class BoundDirectory(Protocol):
    """A connection to a directory that has bound as an entry."""

    def search(self, base: str, condition: str, attribute: str, most: int) -> list[Entry]:
        """The entries below ``base`` that a filter fits, at most ``most`` of them."""
        ...


Bind = Callable[[str, str], AbstractContextManager[BoundDirectory]]
"""A connection that has bound with a distinguished name and its password; BindRefused."""


class DirectoryLogin:
    """Logins at one directory; safe to share between threads. ``attempt`` gives the binds of one
    login, which end by one deadline.
    """

    def __init__(self, settings: DirectorySettings, attempt: Callable[[], Bind]) -> None:
        self._settings = settings
        self._attempt = attempt

    def log_in(self, user: str, password: str) -> Principal:
        """Who has that name and that password; LoginRefused otherwise, which does not tell an
        unknown user from a wrong password.
        """
        if not can_be(user, password):
            raise wrong_login()
        settings, bind = self._settings, self._attempt()
        secret = read_private_file(settings.bind_password_file)
        if not secret:
            raise LoginRefused(f"{settings.bind_password_file} is empty")
        try:
            bound = bind(settings.bind_dn, secret)
        except BindRefused as error:
            raise LoginRefused(
                "the directory does not take the account of the settings",
                why=f"{settings.bind_dn}: {error}",
                next="set auth.ldap.bind_dn and the file of auth.ldap.bind_password_file",
            ) from error
        with bound as directory:
            entry = self._user(directory, user)
            try:
                with bind(entry.dn, password):
                    pass
            except BindRefused:
                raise wrong_login() from None
            groups = self._groups(directory, entry.dn, user) if settings.group_base else ()
            return Principal(
                user=entry.values[0], groups=frozenset(groups), method=LoginMethod.DIRECTORY
            )

    def _user(self, directory: BoundDirectory, user: str) -> Entry:
        """The user's entry. A user is called what the directory says, not what was typed: it may
        take ``ADA`` for ``ada``.
        """
        settings = self._settings
        condition = filled(settings.user_filter, {"user": user})
        found = directory.search(settings.user_base, condition, settings.user_name, 2)
        if len(found) > 1:
            raise LoginRefused(
                "the directory has more than one such user",
                why=f"{settings.user_filter} fits several entries below {settings.user_base}",
                next="set auth.ldap.user_base or auth.ldap.user_filter so that it fits one",
            )
        if not found or not found[0].dn:
            raise wrong_login()
        names = found[0].values
        if len(names) != 1 or not _NAME.fullmatch(names[0]):
            raise LoginRefused(
                f"the user's entry has no name that a user can have in {settings.user_name}",
                why=f"it has {len(names)} values" if len(names) != 1 else "it has white space",
                next="set auth.ldap.user_name",
            )
        return found[0]

    def _groups(self, directory: BoundDirectory, dn: str, user: str) -> Iterable[str]:
        """The names of the groups; names that no role can be bound to are left out."""
        found: dict[str, str] = {}
        members = [dn]
        for _ in range(DEEPEST_GROUPS if self._settings.nested else 1):
            new = [each for each in self._holding(directory, members, user) if each.dn not in found]
            found |= {each.dn: each.values[0] if len(each.values) == 1 else "" for each in new}
            if len(found) > MOST_GROUPS:
                raise LoginRefused(
                    "the user is in too many groups",
                    why=f"more than {MOST_GROUPS} below {self._settings.group_base}",
                    next="set auth.ldap.group_base or auth.ldap.group_filter so that it has fewer",
                )
            members = [each.dn for each in new]
            if not members:
                break
        return [name for name in found.values() if _NAME.fullmatch(name)]

    def _holding(
        self, directory: BoundDirectory, members: Sequence[str], user: str
    ) -> Iterable[Entry]:
        """The groups that have any of these entries as a member."""
        settings = self._settings
        for start in range(0, len(members), _AT_ONCE):
            parts = [
                filled(settings.group_filter, {"dn": dn, "user": user})
                for dn in members[start : start + _AT_ONCE]
            ]
            condition = parts[0] if len(parts) == 1 else f"(|{''.join(parts)})"
            yield from directory.search(
                settings.group_base, condition, settings.group_name, MOST_GROUPS + 1
            )


def filled(condition: str, values: dict[str, str]) -> str:
    """A filter with what was typed in its places, which stays a value (RFC 4515): it can end no
    part of the filter, and stands for nothing but itself.
    """
    return _PLACE.sub(lambda place: escaped(values.get(place[1], "")), condition)


def escaped(value: str) -> str:
    """A value as it is written in a filter."""
    return _SPECIAL.sub(lambda each: f"\\{ord(each[0]):02x}", value)


def can_be(user: str, password: str) -> bool:
    """Whether they can be a user's name and password. An empty password is none: a bind with it
    succeeds, as an anonymous one, whatever entry it names.
    """
    if not _NAME.fullmatch(user) or not 0 < len(password) <= LONGEST_PASSWORD:
        return False
    try:
        (user + password).encode()
    except UnicodeEncodeError:
        return False
    return True


def wrong_login() -> LoginRefused:
    """The same for an unknown user and for a wrong password."""
    return LoginRefused("the user or the password is wrong", next="log in again")
