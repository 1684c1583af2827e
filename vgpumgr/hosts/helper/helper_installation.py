"""The installation of the helper on a host: put in place, looked at, and removed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from typing import Any

from vgpumgr.hosts.helper.helper_launch import (
    FOLDER,
    LAUNCHER,
    STATE,
    SUDOERS,
    bundle,
    helper_version,
    sudoers_line,
)
from vgpumgr.hosts.program_runner import CallCut, CompletedProgram, Runner
from vgpumgr.model.errors import (
    DeadlineExceeded,
    HostRefused,
    HostUnreachable,
    NotPermitted,
    OutcomeUnknown,
)
from vgpumgr.model.host import Installed
from vgpumgr.model.ports import Helper

TIMEOUT_S = 120.0
_PLACES = {"folder": FOLDER, "launcher": LAUNCHER, "sudoers": SUDOERS, "state": STATE}


def install(host: str, runner: Runner, user: str, helper: Helper) -> None:
    """Install the helper and its sudo rule, then ask it for its version.

    Needs root on the host, or ``sudo`` without a password, this once. Raises NotPermitted,
    HostRefused with what to do by hand, or OutcomeUnknown.
    """
    _order(host, runner, user, install_order(user), bundle())
    found = helper.call("version", {}).get("helper")
    if found != helper_version():
        raise HostRefused(
            f"the helper on {host} is not the one just installed",
            why=f"it says version {found}, {helper_version()} was sent",
        )


def install_order(user: str) -> dict[str, str]:
    """What ``installer.py`` reads to install: where, and the rule by which ``user`` may run it."""
    rule = "" if user == "root" else sudoers_line(user)
    return {"do": "install", "sudoers_line": rule, **_PLACES}


def installer_text() -> str:
    """The program that puts the helper in place."""
    return (resources.files("vgpumgr.hosts.helper") / "installer.py").read_text()


def remove(host: str, runner: Runner, user: str) -> None:
    """Remove the helper and its sudo rule; nothing there is no error."""
    _order(host, runner, user, {"do": "remove", **_PLACES}, b"")


def look(host: str, runner: Runner) -> Installed:
    """What of the helper is there; OutcomeUnknown where that cannot be read."""
    doing = f"see whether {host} has the helper"
    try:
        ended = runner.run(
            _argv(), json.dumps({"do": "look", **_PLACES}).encode() + b"\n", TIMEOUT_S
        )
    except CallCut as cut:
        kind = DeadlineExceeded if cut.timed_out else HostUnreachable
        raise kind(f"cannot {doing}: the call was aborted", why=cut.why) from cut
    found = _answer(ended)
    if found["ok"] is not True:
        way_out = f"ssh to {host}: python3 --version (3.9 or later)"
        raise OutcomeUnknown(f"cannot {doing}", why=str(found["why"]), next=way_out)
    return Installed(
        helper=bool(found["helper"]),
        current=found["bundle"] == hashlib.sha256(bundle()).hexdigest(),
        fleets=tuple(map(str, found["fleets"])),
        state=bool(found["state"]),
    )


def _order(host: str, runner: Runner, user: str, order: dict[str, str], data: bytes) -> None:
    argv = _argv() if user == "root" else ["sudo", "-n", *_argv()]
    doing = f"{order['do']} the helper on {host}"
    try:
        stdin = json.dumps(order).encode() + b"\n" + data
        ended = runner.run(argv, stdin, TIMEOUT_S)
    except CallCut as cut:
        raise OutcomeUnknown(f"cannot {doing}: the call was aborted", why=cut.why) from cut
    _check(doing, user, order, ended)


def _check(doing: str, user: str, order: dict[str, str], ended: CompletedProgram) -> None:
    answer = _answer(ended)
    if answer["ok"] is True:
        return
    if user != "root" and ended.status:
        raise NotPermitted(f"cannot {doing}", why=str(answer["why"]), next=_by_hand(user, order))
    raise HostRefused(f"cannot {doing}", why=str(answer["why"]))


def _argv() -> list[str]:
    return ["python3", "-I", "-c", installer_text()]


def _answer(ended: CompletedProgram) -> dict[str, Any]:
    try:
        return {"ok": False, "why": "", **json.loads(ended.out)}
    except (ValueError, TypeError):
        return {"ok": False, "why": ended.err[-500:] or f"status {ended.status}"}


def _by_hand(user: str, order: dict[str, str]) -> str:
    if order["do"] == "remove":
        by_hand = f"on the host, as root: rm -r {FOLDER} {SUDOERS}"
        return f"{by_hand}; then the same command resumes"
    return (
        f"let {user} use sudo without a password for the installation, or enrol once as root@; "
        f"only this rule stays: {sudoers_line(user)}"
    )


@dataclass(frozen=True, slots=True)
class RunnerInstallation:
    """Fulfils ``ports.Installation``; ``user`` says as whom programs run there."""

    host: str
    runner: Runner
    user: Callable[[], str]
    helper: Helper

    def look(self) -> Installed:
        """What is there."""
        return look(self.host, self.runner)

    def install(self) -> None:
        """Install it with its sudo rule, and see that the new one answers."""
        install(self.host, self.runner, self.user(), self.helper)

    def remove(self) -> None:
        """Take both away."""
        remove(self.host, self.runner, self.user())
