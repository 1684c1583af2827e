"""How a change of VMs ended, as printed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vgpumgr.cli.output import print_item

if TYPE_CHECKING:
    from vgpumgr.engine.running.outcome import Outcome


def outcome_item(outcome: Outcome) -> dict[str, Any]:
    """The JSON of an outcome."""
    return {
        "name": outcome.operation,
        "operation": outcome.operation,
        "vms": [
            {"name": vm.vm, "host": vm.host, "verb": vm.verb, "state": str(vm.state)}
            for vm in outcome.vms
        ],
    }


def outcome_text(outcome: Outcome) -> str:
    """``40 of 40 done (operation 1a2b3c4d)``; empty when there was nothing to do."""
    if not outcome.operation:
        return ""
    return f"{len(outcome.done)} of {len(outcome.vms)} done (operation {outcome.operation[:8]})"


def print_outcome(outcome: Outcome) -> None:
    """Print it, then raise for what failed."""
    print_item("Outcome", outcome_item(outcome), outcome_text(outcome) or "nothing to do")
    outcome.raise_for_failure()
