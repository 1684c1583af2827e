"""What the answer to a check says: the guest's word, read with limits. Pure."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from vgpumgr.model.formats import spoken
from vgpumgr.model.guest import SETTLE_S, GuestAnswer, GuestCheck

_LONGEST = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckVerdict:
    """``well``: the check was passed. Otherwise ``why``; ``final``: waiting will not mend it.
    ``booting``: the first boot is not over, which says nothing of the rest. ``settle_s``:
    the seconds after it in which the check may yet be passed.
    """

    well: bool = False
    booting: bool = False
    final: bool = False
    why: str = ""
    settle_s: float = SETTLE_S


PASSED = CheckVerdict(well=True)


def verdict(check: GuestCheck, answer: GuestAnswer) -> CheckVerdict:
    """What the answer says."""
    if check.reads:
        return _REPORTS[check.reads](check, answer)
    if answer.status is None:
        late = f"{check.says}: it gave no answer within {check.timeout_s:g} s"
        return CheckVerdict(why=late, settle_s=check.settle_s)
    said = re.search(check.expect, answer.output, re.MULTILINE) is not None
    if answer.status == 0 and said:
        return PASSED
    return CheckVerdict(why=_cause(check, answer), settle_s=check.settle_s)


def _cause(check: GuestCheck, answer: GuestAnswer) -> str:
    """The first cause whose words are in the output, else what the check says, with its end."""
    for cause in check.causes:
        if re.search(cause.where, answer.output):
            return cause.says
    tail = "" if check.quiet else _tail(answer.output)
    return f"{check.says}: {tail}" if tail else check.says


def _tail(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return printable(lines[-1]) if lines else ""


def printable(text: str) -> str:
    """A guest's words as one line of a bounded length, without control characters."""
    kept = "".join(each if each.isprintable() else " " for each in text[: 2 * _LONGEST])
    return spoken(kept)[:_LONGEST].strip()


def _cloud_init(check: GuestCheck, answer: GuestAnswer) -> CheckVerdict:
    """``cloud-init status --format json``. Of 24.1 and later it ends with 2 for errors that it went
    on after, which are errors all the same: packages that are not there are among them.
    """
    report = _object(answer.output)
    status = _text(report.get("status"))
    if status in {"running", "not run", "not started"}:
        return CheckVerdict(booting=True, why="cloud-init is at work")
    if status == "disabled":
        return CheckVerdict(final=True, why="cloud-init is switched off, or found no seed")
    if status not in {"done", "error", "degraded"}:
        return CheckVerdict(booting=True, why=_cause(check, answer))
    if report.get("datasource") == "none":
        return CheckVerdict(final=True, why="cloud-init found no seed: nothing was prepared")
    return _ended(_faults(report), well=status == "done")


_STAGES = ("init-local", "init", "modules-config", "modules-final")


def quick_verdict(answer: GuestAnswer) -> CheckVerdict | None:
    """What cloud-init's own file of its state says; None where it leaves a doubt, which the command
    settles: of a guest without cloud-init, or with one that is switched off, there is no such file.
    """
    found = _object(answer.output).get("v1") if answer.status == 0 else None
    state = found if isinstance(found, dict) else {}
    stages = [state.get(each) for each in _STAGES]
    if not all(isinstance(each, dict) for each in stages):
        return None
    known = [each for each in stages if isinstance(each, dict)]
    if state.get("stage") is not None or not known[-1].get("finished"):
        return CheckVerdict(booting=True, why="cloud-init is at work")
    if _text(state.get("datasource")).startswith("DataSourceNone"):
        return CheckVerdict(final=True, why="cloud-init found no seed: nothing was prepared")
    return _ended([fault for each in known for fault in _faults(each)])


def _faults(report: dict[str, Any]) -> list[str]:
    return [*_words(report.get("errors")), *_recoverable(report.get("recoverable_errors"))]


def _ended(faults: list[str], *, well: bool = True) -> CheckVerdict:
    if well and not faults:
        return PASSED
    told = "; ".join(faults[:3]) or "it does not say which"
    return CheckVerdict(final=True, why=f"cloud-init failed: {told}")


def _words(found: Any) -> list[str]:
    return [_fault(each) for each in found if isinstance(each, str)] if _is(found, list) else []


_MODULE = re.compile(r"\('([\w-]{1,60})', (.*)\)", re.DOTALL)
_COMMAND = re.compile(
    r"Command: \[(.{1,2000}?)\](?:\\n|\n)Exit code: (\S{1,8}?)(?:\\n|\n)", re.DOTALL
)
_WORD = re.compile(r"'([^']*)'")


def _fault(text: str) -> str:
    """A fault as cloud-init writes it, ``('MODULE', ERROR)``: of a program that failed its words
    without options, which is what names the package.
    """
    found = _MODULE.fullmatch(text.strip())
    module, error = (found[1], found[2]) if found else ("", text)
    if ran := _COMMAND.search(error):
        words = [each for each in _WORD.findall(ran[1]) if not each.startswith("-")]
        error = f"{' '.join(words)} ended with {ran[2]}"
    return printable(f"{module}: {error}" if module else error)


def _recoverable(found: Any) -> list[str]:
    """By severity; what is deprecated works."""
    if not _is(found, dict):
        return []
    kinds = (each for key, each in found.items() if str(key).upper() in {"ERROR", "WARNING"})
    return [word for each in kinds for word in _words(each)]


def _is(found: Any, kind: type) -> bool:
    return isinstance(found, kind)


def _first_boot(check: GuestCheck, answer: GuestAnswer) -> CheckVerdict:
    """What ``first-boot.ps1`` keeps."""
    report = _object(answer.output)
    if report.get("over") is not True:
        return CheckVerdict(booting=True, why=check.says)
    steps = report.get("steps")
    for step in steps if isinstance(steps, list) else []:
        if isinstance(step, dict) and step.get("status") != 0:
            name, tail = _text(step.get("name")), _tail(_text(step.get("output")))
            said = f"{printable(name) or 'a step'} failed"
            return CheckVerdict(final=True, why=f"{said}: {tail}" if tail else said)
    return PASSED


def _text(found: Any) -> str:
    return found if isinstance(found, str) else ""


def _object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text.lstrip("\ufeff"))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


_REPORTS = {"cloud-init": _cloud_init, "first-boot": _first_boot}
