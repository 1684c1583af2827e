"""Names of other tenants are taken out of texts and values, and nothing else is."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vgpumgr.access.redaction import IN_USE, OTHERS, Redaction, names_in
from vgpumgr.model.errors import Conflict, InUse, NotFound, UsersAtWork
from vgpumgr.model.gpu import Framework
from vgpumgr.model.placement import Explanation, Reason
from vgpumgr.model.role_binding import ALL_TENANTS, Scope
from vgpumgr.model.supply import Usage

TENANTS = {"web-01": "blue", "web": "red", "db": "red", "eve@example.org": "red", "same": "red"}
BLUE = Redaction.of(Scope.of("blue"), [*TENANTS.items(), ("same", "blue")])


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("taken by db", f"taken by {OTHERS}"),
        ("db, web-01 and web", f"{OTHERS}, web-01 and {OTHERS}"),
        ("volume db.qcow2 of db-2", f"volume {OTHERS}.qcow2 of {OTHERS}-2"),
        ("web-02 waits behind web-01", f"{OTHERS}-02 waits behind web-01"),
        ("eve@example.org works on db", f"{OTHERS} works on {OTHERS}"),
        ("same is there", "same is there"),
        ("adb dbx d-b", "adb dbx d-b"),
        ("", ""),
        ("0000:41:00.0 has 3 of 8 slots", "0000:41:00.0 has 3 of 8 slots"),
    ],
)
def test_texts(text: str, shown: str) -> None:
    assert BLUE.text(text) == shown


def test_who_sees_all_tenants_sees_all_names() -> None:
    every = Redaction.of(ALL_TENANTS, TENANTS.items())
    assert every.text("db, web") == "db, web"
    value = {"a": ("db",)}
    assert every.value(value) is value


def test_values_are_redacted_all_the_way_down() -> None:
    reason = Reason(code="free-slots", host="h1", text="db has it", facts={"vm": "db", "free": 3})
    said = Explanation(vm="web-01", host=None, reasons=(reason,))
    shown = BLUE.value(said)
    assert shown.vm == "web-01"
    assert shown.reasons[0].text == f"{OTHERS} has it"
    assert shown.reasons[0].facts == {"vm": OTHERS, "free": 3}
    assert BLUE.value(["web", 1, None]) == [OTHERS, 1, None]
    assert BLUE.value({"vms": {"db": ["web is on"]}}) == {"vms": {OTHERS: [f"{OTHERS} is on"]}}
    kept = Explanation(vm="web-01", host=None, reasons=())
    assert BLUE.value(kept) == kept


def test_a_vm_that_is_called_as_a_word_of_ours_changes_no_answer() -> None:
    names = ("running", "state", "items", "vm", "default", "h1", "a40")
    clean = Redaction.of(Scope.of("blue"), [(each, "red") for each in names])
    item = {"name": "web", "state": "running", "vm": "web", "pool": "default", "host": "h1"}
    assert clean.value({"items": [item]}) == {"items": [item]}
    assert clean.value({"why": "behind running"}) == {"why": f"behind {OTHERS}"}
    assert clean.value({"vm": "running"}) == {"vm": OTHERS}


def test_what_lives_on_a_gpu_is_not_said_to_be_anybodys() -> None:
    part = Usage(profile="A40-8Q", framework=Framework.MDEV, units=8, vm="db")
    shown = BLUE.value((part,))[0]
    assert (shown.vm, shown.foreign, shown.units) == ("", IN_USE, 8)
    own = Usage(profile="A40-8Q", framework=Framework.MDEV, units=8, vm="web-01")
    assert BLUE.value(own) == own


def test_errors_keep_their_kind_and_lose_commands_that_name_others() -> None:
    error = UsersAtWork("eve@example.org works on db", why="db runs", next="vgpumgr vm stop db")
    shown = BLUE.error(error)
    assert (type(shown), shown.exit_status) == (UsersAtWork, 4)
    assert (shown.message, shown.why, shown.next) == (
        f"{OTHERS} works on {OTHERS}",
        f"{OTHERS} runs",
        "",
    )
    assert error.message == "eve@example.org works on db"
    mine = InUse("web-01 is in use", next="vgpumgr vm stop web-01")
    assert BLUE.error(mine) is mine


def test_near_names_of_others_are_not_suggested() -> None:
    error = NotFound("no VM dc", why="did you mean db?", next="vgpumgr vm show db")
    shown = BLUE.error(error)
    assert (shown.message, shown.why, shown.next) == ("no VM dc", "", "")


names = st.from_regex(r"[a-z0-9]+(-[a-z0-9]+)*", fullmatch=True).filter(lambda it: len(it) > 2)
around = st.sampled_from(["", " ", ".", ": ", "(", ")", ".qcow2", "/", ", ", "'s "])


@given(names, st.lists(st.tuples(around, st.text(string.ascii_uppercase, max_size=4)), max_size=4))
def test_a_foreign_name_never_stands_as_a_word(name: str, parts: list[tuple[str, str]]) -> None:
    clean = Redaction.of(Scope.of("blue"), [(name, "red")])
    text = name.join(gap + word for gap, word in parts) if parts else name
    shown = clean.text(text)
    assert name not in names_in(shown.replace(OTHERS, "")) or name in names_in(OTHERS)
    assert (shown == text) == (name not in names_in(text))


@given(st.text(max_size=60))
def test_without_foreign_names_a_text_stays(text: str) -> None:
    assert Redaction.of(Scope.of("blue"), [("own", "blue")]).text(text) == text
    assert BLUE.error(Conflict(text)).message == BLUE.text(text)
