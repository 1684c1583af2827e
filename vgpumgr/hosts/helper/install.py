"""Putting the helper on a host, and taking it away."""

from __future__ import annotations

import json
from importlib import resources

from vgpumgr.hosts.helper.bundle import bundle, helper_version
from vgpumgr.hosts.helper.launch import FOLDER, LAUNCHER, SUDOERS, sudoers_line
from vgpumgr.hosts.runner import CallCut, Completed, Runner
from vgpumgr.model.errors import HostRefused, NotPermitted, OutcomeUnknown
from vgpumgr.model.ports import Helper

TIMEOUT_S = 120.0
_PLACES = {"folder": FOLDER, "launcher": LAUNCHER, "sudoers": SUDOERS}


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


def _order(host: str, runner: Runner, user: str, order: dict[str, str], data: bytes) -> None:
    argv = ["python3", "-I", "-c", installer_text()]
    if user != "root":
        argv = ["sudo", "-n", *argv]
    doing = f"{order['do']} the helper on {host}"
    try:
        stdin = json.dumps(order).encode() + b"\n" + data
        ended = runner.run(argv, stdin, TIMEOUT_S)
    except CallCut as cut:
        raise OutcomeUnknown(f"cannot {doing}: the call was cut", why=cut.why) from cut
    _check(doing, user, order, ended)


def _check(doing: str, user: str, order: dict[str, str], ended: Completed) -> None:
    try:
        answer = json.loads(ended.out)
    except ValueError:
        answer = {"ok": False, "why": ended.err[-500:] or f"status {ended.status}"}
    if answer.get("ok") is True:
        return
    if user != "root" and ended.status:
        raise NotPermitted(f"cannot {doing}", why=str(answer["why"]), next=_by_hand(user, order))
    raise HostRefused(f"cannot {doing}", why=str(answer["why"]))


def _by_hand(user: str, order: dict[str, str]) -> str:
    if order["do"] == "remove":
        return f"on the host, as root: rm -r {FOLDER} {SUDOERS}"
    return (
        f"let {user} use sudo without a password for the installation, or enrol once as root@; "
        f"only this rule stays: {sudoers_line(user)}"
    )
