"""What the helper answered, or why it did not: results and errors."""

from __future__ import annotations

import json
from collections.abc import Mapping

from vgpumgr.hosts.helper.launch import LAUNCHER, Launch, sudoers_line
from vgpumgr.hosts.runner import Completed, spoken
from vgpumgr.model.errors import (
    Conflict,
    HostRefused,
    HostUnreachable,
    InUse,
    NotFound,
    NotPermitted,
    OutcomeUnknown,
    Superseded,
    VgpumgrError,
)

_KINDS: dict[str, type[VgpumgrError]] = {
    "bad-argument": HostRefused,
    "not-permitted": NotPermitted,
    "in-use": InUse,
    "claim-mismatch": Conflict,
    "stale-epoch": Superseded,
    "not-found": NotFound,
    "refused": HostRefused,
    "unknown": OutcomeUnknown,
}
_NO_VERB = "no verb "
_NO_SUDO = (
    "password is required",
    "not in the sudoers file",
    "is not allowed to",
    "may not run sudo",
    "terminal is required",
    "sudo: not found",
    "sudo: command not found",
    "No such file or directory: 'sudo'",
)


class NoSudoRule(NotPermitted):
    """sudo wants a password, or is not there."""


def result_of(host: str, ended: Completed, launch: Launch) -> dict[str, object]:
    """The result in the helper's answer; its refusal, or why there is none, is raised."""
    try:
        answer = json.loads(ended.out, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise _no_answer(host, ended, launch) from None
    if isinstance(answer, dict):
        if answer.get("ok") is True and isinstance(answer.get("result"), dict):
            return dict(answer["result"])
        if isinstance(answer.get("error"), dict):
            raise _refusal(host, answer["error"])
    raise _improper(host, ended)


def _no_constant(name: str) -> float:
    """NaN and Infinity are not JSON."""
    raise ValueError(name)


def _refusal(host: str, error: Mapping[str, object]) -> VgpumgrError:
    said = _said(error, "message")
    message = f"{host}: {said or 'the helper refused'}"
    why = _said(error, "why")
    if error.get("code") == "bad-argument" and said.startswith(_NO_VERB):
        return HostRefused(
            f"the helper on {host} is older than this vgpumgr: {said}",
            why=why,
            next=f"vgpumgr host upgrade {host}",
        )
    kind = _KINDS.get(_said(error, "code"), OutcomeUnknown)
    if kind is Superseded:
        return Superseded(message, why=why, next="vgpumgr store check")
    if kind is HostRefused:
        return HostRefused(message, why=why, errno_name=_said(error, "errno"))
    return kind(message, why=why)


def _improper(host: str, ended: Completed) -> OutcomeUnknown:
    return OutcomeUnknown(
        f"the helper on {host} gave an invalid answer",
        why=spoken(ended.out[:200].decode(errors="replace")),
        next=f"vgpumgr host upgrade {host}   (reinstalls the helper)",
    )


def _said(error: Mapping[str, object], key: str) -> str:
    """Text of a refusal, for people; whatever else is there is no text."""
    found = error.get(key)
    return spoken(found) if isinstance(found, str) else ""


def _no_answer(host: str, ended: Completed, launch: Launch) -> VgpumgrError:
    """The program did not even begin, or died: its status and stderr say why."""
    if launch.user is not None and any(words in ended.err for words in _NO_SUDO):
        return NoSudoRule(
            f"no sudo rule lets {launch.user} run the helper on {host}",
            why=ended.err.splitlines()[-1],
            next=f"add to /etc/sudoers.d/vgpumgr: {sudoers_line(launch.user)}",
        )
    if ended.status in {126, 127} or "command not found" in ended.err:
        return HostUnreachable(
            f"the helper cannot be started on {host}",
            why=ended.err or f"{launch.argv[0]} ended with status {ended.status}",
            next=f"ssh to {host}: ls -l {LAUNCHER}; python3 --version (3.9 or later)",
        )
    if ended.status == 0 and ended.out:
        return _improper(host, ended)
    return OutcomeUnknown(
        f"the helper on {host} died",
        why=f"status {ended.status}: {ended.err[-500:]}",
        next=f"vgpumgr host probe {host}",
    )
