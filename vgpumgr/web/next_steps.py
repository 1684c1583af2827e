"""What helps, as a page shows it: commands that have a page are links to it, others are commands.
Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import quote


@dataclass(frozen=True, slots=True)
class NextStep:
    """A part of a hint: plain ``text``, or a ``command``, or where ``href`` is set a link."""

    text: str
    command: bool = False
    href: str = ""


_COMMAND = re.compile(r"vgpumgr [a-z](?:(?!, |; |: | says | rolls ).)*")
# The words of a command, its page, and what the link is called; {} is the name in it.
_PAGES = (
    ("map", "/map", "the map"),
    ("capacity", "/capacity", "Capacity"),
    ("doctor", "/doctor", "Diagnosis"),
    ("doctor {}", "/hosts/{}/diagnosis", "the diagnosis of {}"),
    ("drift", "/drift", "Drift"),
    ("host list", "/hosts", "Hosts"),
    ("host show {}", "/hosts/{}", "host {}"),
    ("host drain {}", "/ask/host.drain?name={}", "drain {}"),
    ("host evacuate {}", "/ask/host.evacuate?name={}", "evacuate {}"),
    ("host probe {}", "/ask/host.probe?names={}", "look at {} again"),
    ("host uncordon {}", "/ask/host.uncordon?names={}", "open {}"),
    ("image list", "/images", "Images"),
    ("layout list", "/layouts", "Layouts"),
    ("booking list", "/bookings", "Bookings"),
    ("operation list", "/operations", "Operations"),
    ("operation list --open", "/operations", "Operations"),
    ("operation show {}", "/operations/{}", "operation {}"),
    ("pool list", "/pools", "Pools"),
    ("pool show {}", "/pools/{}", "pool {}"),
    ("pool explain {}", "/pools/{}/turn", "what pool {} does next"),
    ("queue list", "/queue", "the queue"),
    ("queue show {}", "/queue/{}", "{} in the queue"),
    ("quota list", "/quotas", "Quotas"),
    ("licence list", "/licences", "Licences"),
    ("secret list", "/secrets", "Secrets"),
    ("vm list", "/vms", "VMs"),
    ("vm show {}", "/vms/{}", "VM {}"),
)
_NAME = re.compile(r"[\w.:@-]+")


def next_steps(hint: str) -> tuple[NextStep, ...]:
    """The parts of a hint, in order."""
    return tuple(_parts(hint))


def _parts(hint: str) -> Iterator[NextStep]:
    end = 0
    for found in _COMMAND.finditer(hint):
        if found.start() > end:
            yield NextStep(hint[end : found.start()])
        yield _step(found[0])
        end = found.end()
    if end < len(hint):
        yield NextStep(hint[end:])


def _step(command: str) -> NextStep:
    words = command.removeprefix("vgpumgr ").strip()
    *before, last = words.split(" ")
    named = " ".join([*before, "{}"])
    for pattern, href, label in _PAGES:
        if pattern == words:
            return NextStep(label, href=href)
        if pattern == named and _NAME.fullmatch(last) and not last.startswith("-"):
            return NextStep(label.format(last), href=href.format(quote(last, safe="")))
    return NextStep(command, command=True)
