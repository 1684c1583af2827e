"""What proves that a host is off, and what never does."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fakes import FakeClock
from vgpumgr.app import fence_programs
from vgpumgr.app.fence_programs import MOST_BYTES, Fences, ProgramResult, run_program
from vgpumgr.model.errors import NotFound, NotPermitted
from vgpumgr.model.host import Fence, HostRecord, inline_secret, says_off

FENCE = Fence(off=("/bin/off",), status=("/bin/status",))
HOST = HostRecord(name="h1", address="sim://h1", fence=FENCE)
BARE = HostRecord(name="h1", address="sim://h1")


@pytest.mark.parametrize(
    ("code", "answer"),
    [
        (0, "Chassis Power is off\n"),
        (2, "Status: OFF\n"),
        (0, "Status: OFF"),
        (0, "\n  bmc2: Off\r\n"),
        (0, "outlet 7 is off"),
    ],
)
def test_off(code: int, answer: str) -> None:
    assert says_off(code, answer)


@pytest.mark.parametrize(
    ("code", "answer"),
    [
        (0, "Chassis Power is on\n"),
        (0, "Status: ON"),
        (1, "Status: OFF"),
        (None, "Status: OFF"),
        (0, ""),
        (0, "power is not off"),
        (0, "off the record: it is on"),
        (0, "turned-off"),
        (0, "off."),
        (0, "On\nOff"),
        (0, "Status: ON\nStatus: OFF\n"),
        (0, "checking …\nOff\n"),
        (0, "On\rOff"),
        (0, "On\u2028Off"),
        (0, "feed 1: on, feed 2: off"),
        (0, "feed 1: off, feed 2: off"),
        (0, "power isn't off"),
        (0, "unknown, or off"),
        (0, "was off"),
        (2, "Error: failed to connect; assuming OFF"),
    ],
)
def test_not_off(code: int | None, answer: str) -> None:
    assert not says_off(code, answer)


class Programs:
    """``off`` and ``status``: the answers of status in turn, the last for ever."""

    def __init__(self, *answers: ProgramResult, off: ProgramResult | None = None) -> None:
        self._answers = list(answers)
        self._off = off or ProgramResult(0)
        self.ran: list[str] = []

    def __call__(self, argv: Sequence[str], limit_s: float) -> ProgramResult:
        self.ran.append(argv[0])
        if argv == FENCE.off:
            return self._off
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


ON, OFF = ProgramResult(0, "power is on"), ProgramResult(0, "power is off")


def test_it_is_switched_off_and_asked_until_it_is() -> None:
    programs, clock = Programs(ON, ON, OFF), FakeClock()
    proof = Fences(clock, programs).switch_off(HOST)
    assert programs.ran == ["/bin/off", "/bin/status", "/bin/status", "/bin/status"]
    assert proof.how == "its fence status says 'power is off'"


@pytest.mark.parametrize("off", [ProgramResult(1, why="no route"), ProgramResult(None, why="late")])
def test_how_off_ends_proves_nothing_either_way(off: ProgramResult) -> None:
    assert Fences(FakeClock(), Programs(OFF, off=off)).switch_off(HOST)
    with pytest.raises(NotPermitted, match="not proven to be off"):
        Fences(FakeClock(), Programs(ON)).switch_off(HOST)


@pytest.mark.parametrize(
    "answer",
    [ON, ProgramResult(1, "power is off"), ProgramResult(None, why="late"), ProgramResult(0)],
)
def test_after_its_deadline_it_is_not_proven(answer: ProgramResult) -> None:
    clock = FakeClock()
    began = clock.monotonic()
    with pytest.raises(NotPermitted) as refused:
        Fences(clock, Programs(answer)).switch_off(HOST)
    assert clock.monotonic() - began == pytest.approx(fence_programs.UNTIL_OFF_S, abs=2)
    assert "--confirm-off" in refused.value.next


def test_without_a_block_only_a_word_counts() -> None:
    fences = Fences(FakeClock(), Programs(OFF))
    assert fences.proof(BARE) is None
    with pytest.raises(NotPermitted, match="not proven to be off"):
        fences.switch_off(BARE)
    fences.confirm("h1", "anna@desk")
    assert fences.switch_off(BARE).how == "anna@desk confirms it (--confirm-off)"
    assert fences.proof(HostRecord(name="h2", address="sim://h2")) is None


def test_a_program_gets_no_input_and_no_shell() -> None:
    argv = (sys.executable, "-c", "import sys; print(sys.stdin.read(), sys.argv[1:])", "$HOME", ";")
    assert run_program(argv, 10.0) == ProgramResult(0, " ['$HOME', ';']\n")


def test_a_program_that_is_not_there() -> None:
    assert run_program(("/no/such/program",), 1.0) == ProgramResult(
        None, why="/no/such/program: No such file or directory"
    )


def test_a_program_that_does_not_end_is_killed_with_its_children() -> None:
    ran = run_program(("/bin/sh", "-c", "echo off; sleep 60 & sleep 60"), 0.3)
    assert (ran.code, ran.out) == (None, "")
    assert "within 0.3 s" in ran.why


def test_a_program_that_talks_too_much_is_killed() -> None:
    ran = run_program((sys.executable, "-c", f"print('off ' * {MOST_BYTES})"), 10.0)
    assert (ran.code, ran.out, ran.why) == (None, "", "it printed too much")


def test_its_last_words_on_stderr_are_kept() -> None:
    ran = run_program(("/bin/sh", "-c", "echo no >&2; echo login failed >&2; exit 3"), 10.0)
    assert ran == ProgramResult(3, "", "login failed")
    assert fence_programs.words(ran) == "nothing (exit 3, login failed)"


@pytest.mark.parametrize(
    "argv",
    [
        ("/usr/bin/ipmitool", "-H", "bmc", "-P", "calvin"),
        ("/usr/bin/ipmitool", "-Pcalvin"),
        ("/usr/sbin/fence_ipmilan", "-p", "calvin"),
        ("/usr/sbin/fence_ipmilan", "--password=calvin"),
        ("/usr/sbin/fence_ipmilan", "--password", "calvin"),
        ("/usr/bin/curl", "https://root:calvin@bmc/redfish"),
        ("/usr/local/bin/off", "passwd=calvin"),
        ("/usr/local/bin/off", "--api-token=1234"),
    ],
)
def test_a_password_among_the_arguments_is_found(argv: tuple[str, ...]) -> None:
    assert inline_secret(argv)


@pytest.mark.parametrize(
    "argv",
    [
        ("/usr/bin/ipmitool", "-H", "bmc", "-U", "admin", "-f", "/etc/bmc.pass", "-p", "623"),
        ("/usr/sbin/fence_ipmilan", "--password-script=/etc/say", "--plug=2", "-a", "bmc"),
        ("/usr/bin/curl", "--netrc-file", "/etc/netrc", "https://bmc:443/redfish"),
        ("/usr/bin/ssh", "-p", "22", "pdu", "off", "3"),
    ],
)
def test_other_arguments_are_no_password(argv: tuple[str, ...]) -> None:
    assert not inline_secret(argv)


class Files:
    """Where the secret ``bmc`` lies, and no other."""

    def path(self, tenant: str, name: str) -> Path:
        if (tenant, name) != ("*", "bmc"):
            raise NotFound(f"no secret {name}", next="vgpumgr secret list")
        return Path("/state/bmc")


def test_programs_get_the_path_of_their_secret_and_nothing_without_it() -> None:
    ran: list[Sequence[str]] = []

    def run(argv: Sequence[str], limit_s: float) -> ProgramResult:
        ran.append(argv)
        return OFF

    fence = Fence(off=("/bin/off", "{secret}"), status=("/bin/status", "-f={secret}"), secret="bmc")
    fences = Fences(FakeClock(), run, Files())
    assert fences.switch_off(replace(HOST, fence=fence)).how.endswith("'power is off'")
    assert ran == [("/bin/off", "/state/bmc"), ("/bin/status", "-f=/state/bmc")]
    ran.clear()
    lost = replace(HOST, fence=replace(fence, secret="lost"))
    assert fences.proof(lost) is None and ran == []
    with pytest.raises(NotPermitted) as refused:
        fences.switch_off(lost)
    assert "no secret lost" in refused.value.why
