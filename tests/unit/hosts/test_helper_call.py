"""From a verb to an answer, and from whatever else happens to an error that helps."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import pytest

from vgpumgr.hosts.helper.helper_call import HelperCall
from vgpumgr.hosts.helper.helper_launch import LAUNCHER, HelperLaunch, installed, sudoers_line
from vgpumgr.hosts.program_runner import CallCut, CompletedProgram, LocalRunner
from vgpumgr.model.errors import (
    ClaimLost,
    Conflict,
    DeadlineExceeded,
    HostRefused,
    HostUnreachable,
    InUse,
    NotFound,
    NotPermitted,
    OutcomeUnknown,
    Superseded,
    UsageError,
    VgpumgrError,
)

CLAIM = {"allocation": "a", "generation": 1, "vm": "v"}


class Script:
    """A runner that plays prepared endings and keeps what it was asked."""

    def __init__(self, *endings: CompletedProgram | Exception) -> None:
        self.endings = list(endings)
        self.asked: list[tuple[tuple[str, ...], bytes, float]] = []

    def run(self, argv: Sequence[str], stdin: bytes, timeout_s: float) -> CompletedProgram:
        self.asked.append((tuple(argv), stdin, timeout_s))
        ending = self.endings.pop(0)
        if isinstance(ending, Exception):
            raise ending
        return ending


def answered(**answer: object) -> CompletedProgram:
    return CompletedProgram(0, json.dumps(answer).encode(), "")


def helper(runner: Script, launch: HelperLaunch | None = None) -> HelperCall:
    return HelperCall(
        "h1", runner, launch or installed("root"), timeout_s=5.0, identity=lambda: ("fleet-1", 7)
    )


def test_a_look_carries_its_arguments_and_no_identity() -> None:
    script = Script(answered(ok=True, result={"exists": False}))
    assert helper(script).call("mdev_look", {"uuid": "u"}) == {"exists": False}
    ((argv, stdin, timeout_s),) = script.asked
    assert (argv, timeout_s) == ((LAUNCHER,), 5.0)
    assert json.loads(stdin) == {"verb": "mdev_look", "args": {"uuid": "u"}}


def test_a_change_carries_fleet_and_epoch() -> None:
    script = Script(answered(ok=True, result={}))
    helper(script).call("mdev_remove", {"uuid": "u", "claim": CLAIM})
    request = json.loads(script.asked[0][1])
    assert (request["fleet"], request["epoch"]) == ("fleet-1", 7)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("bad-argument", HostRefused),
        ("not-permitted", NotPermitted),
        ("in-use", InUse),
        ("claim-mismatch", Conflict),
        ("stale-epoch", Superseded),
        ("not-found", NotFound),
        ("refused", HostRefused),
        ("unknown", OutcomeUnknown),
        ("of-some-later-helper", OutcomeUnknown),
    ],
)
def test_each_code_of_the_protocol_has_its_error(code: str, kind: type[VgpumgrError]) -> None:
    error = {"code": code, "message": "no", "why": "because", "errno": "EBUSY"}
    with pytest.raises(kind) as caught:
        helper(Script(answered(ok=False, error=error))).call("vfio_look", {"address": "x"})
    assert type(caught.value) is kind
    assert (caught.value.message, caught.value.why) == ("h1: no", "because")
    if isinstance(caught.value, HostRefused):
        assert caught.value.errno_name == "EBUSY"


STALE = answered(ok=False, error={"code": "stale-epoch", "message": "superseded"})


def renewing(script: Script, renew: Callable[[], tuple[str, int]]) -> HelperCall:
    """A helper call of a process that started in epoch 7."""
    return HelperCall(
        *("h1", script, installed("root")),
        timeout_s=5.0,
        identity=lambda: ("fleet-1", 7),
        renew=renew,
    )


def test_an_epoch_that_another_raised_is_taken_over_and_the_call_made_once_more() -> None:
    script = Script(STALE, answered(ok=True, result={"done": True}))
    call = renewing(script, lambda: ("fleet-1", 8))
    assert call.call("mdev_remove", {"uuid": "u", "claim": CLAIM}) == {"done": True}
    assert [json.loads(asked[1])["epoch"] for asked in script.asked] == [7, 8]


def test_a_host_that_still_knows_more_than_the_ledger_stops_us() -> None:
    script = Script(STALE, STALE)
    with pytest.raises(Superseded) as caught:
        renewing(script, lambda: ("fleet-1", 8)).call("mdev_remove", {})
    assert caught.value.next == "vgpumgr store check"
    script = Script(STALE)
    with pytest.raises(Superseded):
        renewing(script, lambda: ("fleet-1", 7)).call("mdev_remove", {})
    assert len(script.asked) == 1


def test_who_lost_its_claims_does_not_call_again() -> None:
    def renew() -> tuple[str, int]:
        raise ClaimLost("taken over")

    script = Script(STALE)
    with pytest.raises(ClaimLost):
        renewing(script, renew).call("mdev_remove", {})
    assert len(script.asked) == 1


def test_a_helper_that_is_too_old_for_a_verb_is_named_with_the_way_out() -> None:
    error = {"code": "bad-argument", "message": "no verb 'layout_claim'", "why": "known: version"}
    with pytest.raises(HostRefused, match="the helper on h1 is older than this vgpumgr") as caught:
        helper(Script(answered(ok=False, error=error))).call("layout_claim", {})
    assert caught.value.next == "vgpumgr host upgrade h1"


@pytest.mark.parametrize("out", [b'{"ok": true}', b'{"ok": "yes", "result": {}}', b"[]", b"7"])
def test_an_answer_without_result_is_unknown(out: bytes) -> None:
    with pytest.raises(OutcomeUnknown, match="an invalid answer"):
        helper(Script(CompletedProgram(0, out, ""))).call("probe", {})


def test_a_cut_change_is_unknown_and_a_cut_look_is_not() -> None:
    late, lost = CallCut("no answer within 5 s", timed_out=True), CallCut("broken")
    with pytest.raises(OutcomeUnknown, match="mdev_create on h1 was aborted"):
        helper(Script(late)).call("mdev_create", {"claim": CLAIM})
    with pytest.raises(DeadlineExceeded):
        helper(Script(late)).call("mdev_look", {"uuid": "u"})
    with pytest.raises(HostUnreachable):
        helper(Script(lost)).call("mdev_look", {"uuid": "u"})


@pytest.mark.parametrize(
    "err",
    [
        "sudo: a password is required",
        "sh: 1: sudo: not found",
        "gpuadm is not in the sudoers file.",
    ],
)
def test_without_a_sudo_rule_the_line_to_add_is_printed(err: str) -> None:
    script = Script(CompletedProgram(1, b"", err))
    with pytest.raises(NotPermitted, match="no sudo rule lets gpuadm") as caught:
        helper(script, installed("gpuadm")).call("mdev_look", {"uuid": "u"})
    assert caught.value.next.endswith(f'gpuadm ALL=(root) NOPASSWD: {LAUNCHER} ""')
    assert script.asked[0][0] == ("sudo", "-n", LAUNCHER)


def test_a_probe_without_a_sudo_rule_is_made_as_we_are_and_says_so() -> None:
    script = Script(
        CompletedProgram(1, b"", "sudo: a password is required"),
        answered(ok=True, result={"cpus": 2, "unknown": [{"part": "nvml", "why": "x"}]}),
    )
    found = helper(script, installed("gpuadm")).call("probe", {})
    assert script.asked[1][0] == (LAUNCHER,)
    assert found["cpus"] == 2
    parts = found["unknown"]
    assert isinstance(parts, list)
    assert [part["part"] for part in parts] == ["nvml", "root"]


def test_a_helper_that_is_not_installed_cannot_be_started() -> None:
    with pytest.raises(HostUnreachable, match="cannot be started on h1"):
        helper(Script(CompletedProgram(127, b"", "sh: 1: not found"))).call("probe", {})


def test_a_helper_that_dies_is_unknown_and_its_last_words_are_shown() -> None:
    with pytest.raises(OutcomeUnknown, match="died") as caught:
        helper(Script(CompletedProgram(-9, b"", "Killed"))).call("probe", {})
    assert "Killed" in caught.value.why


def test_a_probe_only_host_is_never_changed() -> None:
    script = Script()
    launch = HelperLaunch(argv=("python3",), may_change=False)
    with pytest.raises(NotPermitted, match="probe-only"):
        helper(script, launch).call("mdev_create", {"claim": CLAIM})
    assert script.asked == []


@pytest.mark.parametrize("user", ["root ALL", "a\nb", "%wheel", "", "a" * 100, "#1000"])
def test_an_odd_user_never_gets_into_a_sudoers_file(user: str) -> None:
    with pytest.raises(UsageError):
        sudoers_line(user)


def test_a_local_program_is_run_bounded_and_a_missing_one_is_127() -> None:
    runner = LocalRunner()
    assert runner.run(("cat",), b"hello", 5.0) == CompletedProgram(0, b"hello", "")
    assert runner.run(("/nosuch/program",), b"", 5.0).status == 127
    with pytest.raises(CallCut) as caught:
        runner.run(("sleep", "60"), b"", 0.05)
    assert caught.value.timed_out
