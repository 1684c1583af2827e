"""Findings of ``doctor`` as people and programs see them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vgpumgr.cli.output import print_item
from vgpumgr.model.examined import Finding, Mark

_WORDS = {Mark.OK: "ok", Mark.WARN: "warn", Mark.BAD: "BAD", Mark.UNKNOWN: "?"}
_MARK_WIDTH = 4
_SHOWN = (Mark.BAD, Mark.WARN, Mark.UNKNOWN)


def print_findings(name: str, findings: Sequence[Finding]) -> None:
    """The table of one host, or of everything (``name`` is ``doctor``)."""
    items = [finding_item(each) for each in findings]
    print_item("Diagnosis", {"name": name, "items": items}, findings_text(findings))


def finding_item(finding: Finding) -> dict[str, Any]:
    """The JSON of a finding."""
    return {
        "check": finding.check,
        "mark": str(finding.mark),
        "ok": finding.ok,
        "text": finding.text,
        "next": finding.next,
        "by_hand": finding.by_hand,
    }


def findings_text(findings: Sequence[Finding]) -> str:
    """One line for each, with the commands that help below it."""
    width = max((len(each.check) for each in findings), default=0)
    return "\n".join(line for each in findings for line in _lines(each, width))


def summary(findings: Sequence[Finding]) -> str:
    """``2 bad, 1 warn``; empty when all is well."""
    counts = {mark: sum(each.mark is mark for each in findings) for mark in _SHOWN}
    return ", ".join(f"{count} {mark}" for mark, count in counts.items() if count)


def _lines(finding: Finding, width: int) -> list[str]:
    mark = _WORDS[finding.mark].ljust(_MARK_WIDTH)
    below = " " * (_MARK_WIDTH + width + 3)
    helps = [("next", finding.next), ("by hand", finding.by_hand)]
    return [
        f"{mark} {finding.check:<{width}}  {finding.text}",
        *(f"{below}{label}: {text}" for label, text in helps if text),
    ]
