"""The endpoint of checks: of the machine of the controller, the ledger and the hosts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from typing_extensions import TypedDict

from vgpumgr.access.permission import Permission
from vgpumgr.endpoints.call_context import CallContext
from vgpumgr.endpoints.endpoint import Endpoint, HttpMethod, Result, Runs
from vgpumgr.endpoints.shapes import Name
from vgpumgr.model.errors import PartlyDone
from vgpumgr.model.examination import CheckOutcome, Finding


class FindingItem(TypedDict):
    """A check and its outcome: ``mark`` is ok, warn, bad or unknown. ``next`` is the command of
    ours that helps, ``by_hand`` what to type on the host instead.
    """

    check: str
    mark: str
    ok: bool
    text: str
    next: str
    by_hand: str


class Diagnosis(TypedDict):
    """All findings of one host, or of everything (``name`` is ``doctor``)."""

    name: str
    items: list[FindingItem]


@dataclass(frozen=True, slots=True, kw_only=True)
class DiagnosisRequest:
    """One host closely, or everything."""

    host: Name | None = None


def diagnose(context: CallContext, asked: DiagnosisRequest) -> Result[Diagnosis]:
    """Carry the checks out."""
    from vgpumgr.app.diagnosis import examine, examine_host

    if asked.host is None:
        findings = examine(context.app)
        wrong = sum(not each.ok for each in findings)
        text = f"{wrong} of {len(findings)} checks need attention" if wrong else ""
    else:
        findings = examine_host(context.app, asked.host)
        bad = any(each.mark is CheckOutcome.BAD for each in findings)
        text = f"{asked.host} needs attention: {_summary(findings)}" if bad else ""
    item = diagnosis_item(asked.host or "doctor", findings)
    return Result(answer=item, error=PartlyDone(text) if text else None)


def diagnosis_item(name: str, findings: Sequence[Finding]) -> Diagnosis:
    """The JSON of findings."""
    return {"name": name, "items": [_finding(each) for each in findings]}


def _finding(finding: Finding) -> FindingItem:
    return {
        "check": finding.check,
        "mark": str(finding.mark),
        "ok": finding.ok,
        "text": finding.text,
        "next": finding.next,
        "by_hand": finding.by_hand,
    }


_SHOWN = (CheckOutcome.BAD, CheckOutcome.WARN, CheckOutcome.UNKNOWN)


def _summary(findings: Sequence[Finding]) -> str:
    """``2 bad, 1 warn``."""
    counts = {mark: sum(each.mark is mark for each in findings) for mark in _SHOWN}
    return ", ".join(f"{count} {mark}" for mark, count in counts.items() if count)


DIAGNOSE = Endpoint(
    name="doctor.run",
    method=HttpMethod.GET,
    path="/diagnosis",
    permission=Permission.HOST_PROBE,
    summary="Checks of the controller's machine, the ledger and the hosts.",
    asks=DiagnosisRequest,
    answers=Diagnosis,
    kind="Diagnosis",
    work=diagnose,
    runs=Runs.WORKER,
)

ENDPOINTS = (DIAGNOSE,)
