"""Claims: names of which one live process at a time is the holder, and how it is known to live."""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Iterable
from typing import Protocol

from vgpumgr.model.errors import ClaimLost


class Claims(Protocol):
    """Names this process holds. Whoever dies, however, holds nothing any more."""

    @property
    def worker(self) -> str:
        """Who we are in ``operation.worker``: ``MACHINE:PID:…``, never anybody else's."""

    @property
    def may_outlive(self) -> bool:
        """Can a process still run whose claims are gone? True where a server judges that."""

    def claim(self, name: str) -> bool:
        """Hold the name until :meth:`release`; False while another live process does."""

    def is_held(self, name: str) -> bool:
        """Does any live process hold the name? Nothing is claimed."""

    def held(self) -> frozenset[str]:
        """What this process holds."""

    def others(self) -> tuple[str, ...]:
        """Who else holds anything, in words."""

    def require(self) -> None:
        """ClaimLost unless everything claimed is surely still held."""

    def release(self, name: str) -> None:
        """Let go of one name; one that is not held is no error."""

    def close(self) -> None:
        """Let go of all."""


_OPERATION = "operation:"


def operation_name(operation_id: str) -> str:
    """The name that an operation is claimed by."""
    return _OPERATION + operation_id


def operation_ids(names: Iterable[str]) -> tuple[str, ...]:
    """The operations among claimed names."""
    return tuple(each.removeprefix(_OPERATION) for each in names if each.startswith(_OPERATION))


def new_worker() -> str:
    """A name for this process that no other ever has."""
    return f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:12]}"


def lost(why: str) -> ClaimLost:
    """The error of a process that must not go on."""
    return ClaimLost(
        "this process no longer owns the operation it worked on",
        why=why,
        next="vgpumgr operation list, then vgpumgr operation resume "
        "ID if no other process resumed it",
    )
