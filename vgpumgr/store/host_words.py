"""What an operator changed of a host, in words. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from vgpumgr.model.host import HostRecord

# What a look writes, and what is compared otherwise.
_OBSERVED = frozenset({"name", "generation", "facts", "observed_at", "last_error", "membership"})
# A fence is a command, which may carry a password: the trail says no more than that it changed.
_SECRET = frozenset({"fence"})


def changed_event(before: HostRecord, after: HostRecord) -> str:
    """``host.cordoned`` or ``host.uncordoned`` where that changed, else ``host.changed``."""
    if before.cordoned == after.cordoned:
        return "host.changed"
    return "host.cordoned" if after.cordoned else "host.uncordoned"


def changed_words(before: HostRecord, after: HostRecord) -> str:
    """``cordoned; host_key: SHA256:a → SHA256:b``."""
    return "; ".join(_differences(before, after))


def _differences(before: HostRecord, after: HostRecord) -> Iterator[str]:
    for name in (field.name for field in fields(HostRecord) if field.name not in _OBSERVED):
        old, new = getattr(before, name), getattr(after, name)
        if old == new:
            continue
        if isinstance(new, bool):
            yield name if new else f"not {name}"
        elif name in _SECRET:
            yield f"{name} {'removed' if new is None else 'set' if old is None else 'changed'}"
        else:
            yield f"{name}: {_text(old)} → {_text(new)}"


def _text(value: object) -> str:
    if isinstance(value, dict):
        return ",".join(f"{key}={value[key]}" for key in sorted(value)) or "none"
    return "none" if value in (None, "") else str(value)
