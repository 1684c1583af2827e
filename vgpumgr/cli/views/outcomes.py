"""How a change of VMs ended, as printed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from vgpumgr.cli.output import print_item
from vgpumgr.cli.views.users import cut_off_text, user_items

if TYPE_CHECKING:
    from vgpumgr.engine.pooling import AtWork
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


def print_outcome(outcome: Outcome, users: Sequence[AtWork] = ()) -> None:
    """Print it, then raise for what failed; ``users`` were at work there, and are cut off."""
    item, text = outcome_item(outcome), outcome_text(outcome) or "nothing to do"
    if users:
        item["users"] = user_items(users)
        text = f"{text}; {cut_off_text(users)}"
    print_item("Outcome", item, text)
    outcome.raise_for_failure()
