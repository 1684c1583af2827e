"""Programs that a guest's agent runs: what it answers is read with limits."""

from __future__ import annotations

import base64
import json

import libvirt
import libvirt_qemu
import pytest

from vgpumgr.model.errors import HostRefused
from vgpumgr.model.guest import GuestAnswer
from vgpumgr.virt import guest_programs


class Connection:
    def isAlive(self) -> int:  # noqa: N802 - libvirt's name
        return 1


class FakeDomain:
    """A domain whose agent answers with what the test says."""

    def name(self) -> str:
        return "desk"

    def connect(self) -> Connection:
        return Connection()


def refusal(code: int, text: str) -> libvirt.libvirtError:
    error = libvirt.libvirtError(text)
    error.args = (text,)  # else it has the words of the last error of this thread
    error.err = (code, 0, text, 2, "", None, None, 0, 0)
    return error


@pytest.fixture
def agent(monkeypatch):
    """What was asked, and what is answered."""
    asked: list[dict] = []
    answers: list[object] = []

    def command(domain, text, timeout, flags):
        asked.append(json.loads(text))
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, str) else json.dumps({"return": answer})

    monkeypatch.setattr(libvirt_qemu, "qemuAgentCommand", command)
    return asked, answers


def coded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def test_a_program_is_begun_with_its_arguments_and_read_when_it_has_ended(agent):
    asked, answers = agent
    ended = {"exited": True, "exitcode": 3, "out-data": coded("a"), "err-data": coded("b")}
    answers += [{"pid": 7}, {"exited": False}, ended]
    assert guest_programs.begin(FakeDomain(), ("docker", "info")) == 7
    assert asked[0]["arguments"] == {"path": "docker", "arg": ["info"], "capture-output": True}
    assert guest_programs.end(FakeDomain(), 7, 100) is None
    assert guest_programs.end(FakeDomain(), 7, 100) == GuestAnswer(status=3, output="ab")


def test_output_is_cut_off(agent):
    _, answers = agent
    answers += [{"exited": True, "exitcode": 0, "out-data": coded("x" * 1000)}]
    found = guest_programs.end(FakeDomain(), 7, 100)
    assert found is not None
    assert len(found.output) == 100


def test_no_agent_is_none_and_a_missing_program_is_127(agent):
    _, answers = agent
    answers += [refusal(libvirt.VIR_ERR_AGENT_UNRESPONSIVE, "Guest agent is not responding")]
    assert guest_programs.begin(FakeDomain(), ("x",)) is None
    answers += [refusal(libvirt.VIR_ERR_INTERNAL_ERROR, "Failed to execute child process")]
    found = guest_programs.begin(FakeDomain(), ("x",))
    assert isinstance(found, GuestAnswer)
    assert found.status == 127


def test_an_agent_that_runs_no_programs_is_said_with_what_to_do(agent):
    _, answers = agent
    answers += [refusal(libvirt.VIR_ERR_INTERNAL_ERROR, "The command guest-exec has been disabled")]
    with pytest.raises(HostRefused, match="runs no programs") as error:
        guest_programs.begin(FakeDomain(), ("x",))
    assert "block-rpcs" in error.value.next


@pytest.mark.parametrize(
    "answer", ["", "null", "[]", '{"return": 7}', "[" * 99_999, '{"return": {"pid": "7"}}']
)
def test_nonsense_of_an_agent_is_no_program(agent, answer):
    _, answers = agent
    answers += [answer, answer]
    found = guest_programs.begin(FakeDomain(), ("x",))
    assert isinstance(found, GuestAnswer)
    assert guest_programs.end(FakeDomain(), 7, 100) is None


def test_data_that_is_no_base64_is_no_output(agent):
    _, answers = agent
    answers += [{"exited": True, "exitcode": "0", "out-data": "%%%", "err-data": 7}]
    found = guest_programs.end(FakeDomain(), 7, 100)
    assert found == GuestAnswer(status=-1, output="")
