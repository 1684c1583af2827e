"""What a task does, as its verb says it."""

from __future__ import annotations

# The verb of a task that is about a GPU: its ``vm_id`` is the GPU's id, its ``vm`` names it.
LAYOUT = "layout"
# The verb of a task whose steps are on two hosts.
MIGRATE = "migrate"
# The verb of a task that brings a domain of another hand under management.
ADOPT = "adopt"
# The verbs of ``heal``: a VM brought back to its record, and what a VM that is gone left behind.
HEAL, CLEAN = "heal", "clean"
# The verb of a task that gives back units which nothing on a host stands for any more.
RELEASE = "release"
# A VM that gives back what it holds, and is kept on its host; and one that comes back.
SHELVE, UNSHELVE = "shelve", "unshelve"
# A VM that gets other GPUs of its host.
RESEAT = "reseat"
# A VM that gets its first disk anew over another image, and keeps all else.
REIMAGE = "reimage"
# A VM recreated on ``host`` because its old one, ``peer``, was lost and is proven off.
EVACUATE = "evacuate"
# What an evacuated VM left on its old host, taken away there.
LEAVE = "leave"
# The verbs of tasks that are about a host: it comes into the fleet, or goes. No VM is theirs.
ENROL, REMOVE = "enrol", "remove"
OF_HOSTS = frozenset({ENROL, REMOVE})
# The verbs of tasks that are about a copy of an image: their ``vm_id`` is the copy's id.
IMPORT, DISCARD = "import", "discard"
OF_IMAGES = frozenset({IMPORT, DISCARD})


def worked_on(verb: str, host: str, peer: str) -> tuple[str, ...]:
    """The hosts that a task of this verb works on: never one that was lost."""
    return (host, peer) if peer and verb != EVACUATE else (host,)
