"""Logins at a directory: what is asked there, and what its answers come to."""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vgpumgr.identity.directory_login import (
    LONGEST_PASSWORD,
    MOST_GROUPS,
    BindRefused,
    DirectoryLogin,
    DirectorySettings,
    Entry,
    filled,
)
from vgpumgr.model.errors import LoginRefused

SERVICE, ADA = "cn=service", r"cn=Lovelace\, Ada (CAD)"
PEOPLE, GROUPS = "ou=people", "ou=groups"


@dataclass
class FakeDirectory:
    """Entries by the filter that finds them; binds that it takes, and all that it was asked."""

    found: dict[str, list[Entry]] = field(default_factory=dict)
    passwords: dict[str, str] = field(default_factory=dict)
    binds: list[tuple[str, str]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def bind(self, dn: str, password: str) -> Any:
        self.binds.append((dn, password))
        if self.passwords.get(dn) != password:
            raise BindRefused("Invalid credentials")

        @contextmanager
        def bound() -> Any:
            yield self

        return bound()

    def search(self, base: str, condition: str, attribute: str, most: int) -> list[Entry]:
        assert (base, attribute) in {(PEOPLE, "uid"), (GROUPS, "cn")}
        self.asked.append(condition)
        return self.found.get(condition, [])[:most]


@pytest.fixture
def settings(tmp_path: Path) -> DirectorySettings:
    secret = tmp_path / "secret"
    secret.write_text("service-password\n")
    secret.chmod(0o600)
    return DirectorySettings(
        bind_dn=SERVICE, bind_password_file=secret, user_base=PEOPLE, group_base=GROUPS
    )


@pytest.fixture
def directory() -> FakeDirectory:
    member = r"(member=cn=Lovelace\5c, Ada \28CAD\29)"
    return FakeDirectory(
        {
            "(uid=ada)": [Entry(ADA, ("ada",))],
            member: [Entry("cn=cad", ("cad",)), Entry("cn=gpu users", ("gpu users",))],
            "(|(member=cn=cad)(member=cn=gpu users))": [Entry("cn=staff", ("staff",))],
            "(member=cn=staff)": [Entry("cn=cad", ("cad",)), Entry("cn=x", ("x", "y"))],
        },
        {SERVICE: "service-password", ADA: "right"},
    )


def test_a_user_with_its_groups(settings: DirectorySettings, directory: FakeDirectory) -> None:
    who = DirectoryLogin(settings, lambda: directory.bind).log_in("ada", "right")
    assert who.subjects == {"user:ada", "group:cad"}
    assert directory.binds == [(SERVICE, "service-password"), (ADA, "right")]


def test_nested_groups_end_where_they_go_round(
    settings: DirectorySettings, directory: FakeDirectory
) -> None:
    nested = replace(settings, nested=True)
    who = DirectoryLogin(nested, lambda: directory.bind).log_in("ada", "right")
    assert who.groups == {"cad", "staff"}, "a name of two values, or with white space, is no group"
    assert len(directory.asked) == 5


def test_the_rule_of_active_directory_for_nested_groups(
    settings: DirectorySettings, directory: FakeDirectory
) -> None:
    chain = "(member:1.2.840.113556.1.4.1941:={dn})"
    DirectoryLogin(replace(settings, group_filter=chain), lambda: directory.bind).log_in(
        "ada", "right"
    )
    assert directory.asked[-1] == (
        r"(member:1.2.840.113556.1.4.1941:=cn=Lovelace\5c, Ada \28CAD\29)"
    )


@pytest.mark.parametrize("password", ["", "wrong", "x" * (LONGEST_PASSWORD + 1), "\udc80"])
def test_no_password_and_a_wrong_one(
    settings: DirectorySettings, directory: FakeDirectory, password: str
) -> None:
    directory.passwords[ADA] = "right"
    with pytest.raises(LoginRefused, match="user or the password is wrong"):
        DirectoryLogin(settings, lambda: directory.bind).log_in("ada", password)
    assert not any(shown == "" for _, shown in directory.binds)
    assert not any(each.startswith("(member") for each in directory.asked)


def test_an_entry_without_a_name_of_its_own_is_not_bound_as(
    settings: DirectorySettings, directory: FakeDirectory
) -> None:
    directory.found["(uid=ada)"] = [Entry("", ("ada",))]
    directory.passwords[""] = "right"
    with pytest.raises(LoginRefused, match="is wrong"):
        DirectoryLogin(settings, lambda: directory.bind).log_in("ada", "right")


def test_what_was_typed_is_a_value_whatever_it_is(
    settings: DirectorySettings, directory: FakeDirectory
) -> None:
    login = DirectoryLogin(settings, lambda: directory.bind)
    for user in ("*", "ada)(uid=*", "*)(|(uid=*", "{dn}", "\\61da"):
        with pytest.raises(LoginRefused):
            login.log_in(user, "right")
    assert not {"(uid=ada)", "(uid=*)"} & set(directory.asked)


@given(st.text())
def test_a_value_cannot_leave_its_place(value: str) -> None:
    found = filled("(&(uid={user})(x=y))", {"user": value})
    inside = found.removeprefix("(&(uid=").removesuffix(")(x=y))")
    assert not re.search(r"[()*\x00]", inside)
    back = re.sub(r"\\([0-9a-f]{2})", lambda each: chr(int(each[1], 16)), inside)
    assert back == value


def test_more_groups_than_can_be_are_refused(
    settings: DirectorySettings, directory: FakeDirectory
) -> None:
    (member,) = [each for each in directory.found if "Lovelace" in each]
    directory.found[member] = [Entry(f"cn=g{n}", (f"g{n}",)) for n in range(MOST_GROUPS + 5)]
    with pytest.raises(LoginRefused, match="in too many groups"):
        DirectoryLogin(settings, lambda: directory.bind).log_in("ada", "right")
