"""The error tree. Each error says what happened, why, and what to type next.

VgpumgrError                1  failure
├── UsageError              2  bad YAML, field or flag
│   ├── UnknownProfile      2
│   ├── PreconditionRequired 2  a change over HTTP must say what it takes the thing for
│   ├── PoolsInFile         2  a file of pools where VMs are asked for
│   └── BadImage            2  a disk image that is not what it is said to be, or not whole
├── NotFound                3
├── Conflict                4  held by someone, wrong generation, needs a stop
│   ├── UnknownHostKey      4  a host shows an SSH key, and none was given
│   ├── InUse               4  a device or volume somebody else holds
│   ├── StillRunning        4  VMs run that were to be deleted
│   ├── UsersAtWork         4  users would be cut off
│   ├── Frozen              4  the ledger went back in time and may not allocate
│   ├── PreconditionFailed  4  what was to be changed is not as the caller saw it
│   ├── RequestRepeated     4  the same request over HTTP, carried out already
│   └── StaleGeneration     4  the ledger moved since it was read; plan again
├── NoPlacement             5
│   └── QuotaExceeded       5  there may be room, but the tenant may not hold more
├── HostUnreachable         6
├── PartlyDone              7
├── NotPermitted            8
│   ├── HostKeyChanged      8
│   ├── AccessRefused       8  the role of who asks does not give it
│   └── LoginRefused        8  it was not established who asks
├── DeadlineExceeded        9
├── HostRefused             1  the kernel, the driver or libvirt said no
├── OutcomeUnknown          1  a call was aborted: look, never assume
├── LedgerError             1
│   ├── DatabaseFault       1  the database fails, whatever is asked of it
│   │   └── Damaged         1  it, or a row of it, is not what was written
│   ├── ClaimLost           1  another process may work on what this one had claimed
│   └── Superseded          1  a host has heard from a later epoch of this ledger
├── FiguresTooOld           1  hosts were not asked lately what their GPUs measure
├── TrailTampered           1  the audit trail is not what was sealed
└── Interrupted           130
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import ClassVar


class VgpumgrError(Exception):
    """Base of every error a user may see.

    ``message`` says what happened, ``why`` the cause, ``next`` the command or edit that helps.
    ``code`` is stable and dotted; ``exit_status`` is the process's exit code. ``details`` are what
    else its JSON has.
    """

    code: ClassVar[str] = "failed"
    exit_status: ClassVar[int] = 1

    def __init__(self, message: str, *, why: str = "", next: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.why = why
        self.next = next
        self.details: Mapping[str, object] = {}

    def as_dict(self) -> dict[str, object]:
        """The JSON object that ``-o json`` prints on stderr."""
        return {
            "code": self.code,
            "message": self.message,
            "why": self.why,
            "next": self.next,
            "exit": self.exit_status,
            **self.details,
        }


class UsageError(VgpumgrError):
    """The user's input is wrong: YAML, a field, a name, a flag."""

    code = "usage"
    exit_status = 2


class UnknownProfile(UsageError):
    """A profile name that neither the catalogue nor any probed host knows."""

    code = "usage.profile"


class PoolsInFile(UsageError):
    """A file holds pools, which are planned, applied and deleted by themselves."""

    code = "usage.pools"


class BadImage(UsageError):
    """A file is no disk image of the declared format, is not whole, or is of a kind not used."""

    code = "usage.image"


class NotFound(VgpumgrError):
    """No object of that name."""

    code = "not-found"
    exit_status = 3


class Conflict(VgpumgrError):
    """Held by someone else, or the change needs a stop."""

    code = "conflict"
    exit_status = 4


class InUse(Conflict):
    """A device or volume that a domain or another tool holds."""

    code = "conflict.in-use"


class NameTaken(Conflict):
    """Names are unique in the fleet, and this one is given, whoever may see to what."""

    code = "conflict.name-taken"


class UnknownHostKey(Conflict):
    """A host shows an SSH key, and it is not known whether that is right; ``fingerprint`` is it."""

    code = "conflict.host-key"

    def __init__(
        self, message: str, *, why: str = "", next: str = "", fingerprint: str = ""
    ) -> None:
        super().__init__(message, why=why, next=next)
        self.details = {"fingerprint": fingerprint}

    @property
    def fingerprint(self) -> str:
        """The key that the host shows, ``SHA256:…``."""
        return str(self.details.get("fingerprint", ""))


class StillRunning(Conflict):
    """VMs run that were to be deleted."""

    code = "conflict.running"


class UsersAtWork(Conflict):
    """A user works on a desktop that the command would stop."""

    code = "conflict.users"


class Frozen(Conflict):
    """The ledger went back in time: the hosts know more than it does, so it may not allocate."""

    code = "conflict.frozen"


class StaleGeneration(Conflict):
    """The ledger row moved since it was read; the caller plans again."""

    code = "conflict.generation"


class RequestRepeated(Conflict):
    """Another attempt of the same request over HTTP has changed something."""

    code = "conflict.repeated"


class PreconditionFailed(Conflict):
    """What was to be changed is not as the caller saw it; ``details`` has its ``etag`` of now."""

    code = "precondition"

    def __init__(self, message: str, *, why: str = "", next: str = "", etag: str = "") -> None:
        super().__init__(message, why=why, next=next)
        self.details = {"etag": etag}


class PreconditionRequired(UsageError):
    """A change over HTTP must say what it takes the thing for."""

    code = "precondition-required"


class NoPlacement(VgpumgrError):
    """No GPU of the fleet can take the request."""

    code = "placement.none"
    exit_status = 5


class QuotaExceeded(NoPlacement):
    """The tenant would hold more than its quota says."""

    code = "quota-exceeded"


class NoSeatLeft(NoPlacement):
    """VMs would take more licence seats than are declared."""

    code = "licence-exceeded"


class HostUnreachable(VgpumgrError):
    """The host cannot be reached (resolve, connect, authenticate, libvirt absent)."""

    code = "host.unreachable"
    exit_status = 6


class PartlyDone(VgpumgrError):
    """Some of the work was done, or some of the fleet could be read."""

    code = "partly"
    exit_status = 7


class RollStopped(PartlyDone):
    """A rolling change did not go on after one of its waves."""

    code = "partly.rolling"


class NotPermitted(VgpumgrError):
    """The host or its policy says that we may not."""

    code = "not-permitted"
    exit_status = 8


class HostKeyChanged(NotPermitted):
    """The host's SSH key is not the pinned key."""

    code = "not-permitted.host-key"


class AccessRefused(NotPermitted):
    """Who asks has no role that gives the permission."""

    code = "not-permitted.role"


class LoginRefused(NotPermitted):
    """It was not established who asks: a token, certificate or login that is not taken."""

    code = "not-permitted.login"


class DeadlineExceeded(VgpumgrError):
    """A call did not return within its deadline and was cut."""

    code = "deadline"
    exit_status = 9


class HostRefused(VgpumgrError):
    """The kernel, the driver or libvirt refused; ``errno_name`` where there is one."""

    code = "host.refused"
    errno_name: str = ""

    def __init__(
        self,
        message: str,
        *,
        why: str = "",
        next: str = "",
        errno_name: str = "",
    ) -> None:
        super().__init__(message, why=why, next=next)
        self.errno_name = errno_name


class OutcomeUnknown(VgpumgrError):
    """A call was cut after it was sent: it may or may not have happened."""

    code = "host.outcome-unknown"


class LedgerError(VgpumgrError):
    """The ledger cannot be opened, read or written."""

    code = "ledger"


class DatabaseFault(LedgerError):
    """The database itself fails (full, locked, gone), whatever is asked of it."""


class Damaged(DatabaseFault):
    """The ledger is not whole: its file is no database, or a row is not what was written."""

    code = "ledger.damaged"


class TrailTampered(VgpumgrError):
    """Records of the audit trail, or a checkpoint of it, are not what was sealed and signed."""

    code = "audit.tampered"


class ClaimLost(LedgerError):
    """What this process had claimed may be another's by now: it must not go on with it."""

    code = "ledger.claim-lost"


class Superseded(LedgerError):
    """A host refuses us: it has heard from a later epoch, so the ledger here is an old one."""

    code = "ledger.superseded"


class FiguresTooOld(VgpumgrError):
    """Hosts were not asked lately what their GPUs measure."""

    code = "busy.figures"


class Interrupted(VgpumgrError):
    """Ctrl-C: the running host call ended, the operation waits to be resumed or undone."""

    code = "interrupted"
    exit_status = 130


def kind_of(code: str) -> type[VgpumgrError]:
    """The kind of error with that code, as it was kept or sent; the base for one not known."""
    return {kind.code: kind for kind in _tree(VgpumgrError)}.get(code, VgpumgrError)


@cache
def _kind_like(code: str) -> type[VgpumgrError]:
    """The kind with that code, or a new one below the nearest that is known."""
    known, near = kind_of(code), code
    while known is VgpumgrError and (near := near.rpartition(".")[0]):
        known = kind_of(near)
    if known.code == code:
        return known
    return type(known.__name__, (known,), {"code": code, "__module__": __name__})


# Of the JSON of an error, and of a problem document around it, what are no details.
_PLAIN = frozenset({"code", "message", "why", "next", "exit"})
_DOCUMENT = frozenset({"type", "title", "status", "detail", "fields"})


def error_from(data: Mapping[str, object]) -> VgpumgrError:
    """The error that :meth:`VgpumgrError.as_dict` wrote; what is missing of it is empty."""
    texts = {key: str(data.get(key) or "") for key in ("code", "message", "why", "next")}
    kind = _kind_like(texts["code"])
    error = kind.__new__(kind)
    told = {"why": texts["why"], "next": texts["next"]}
    VgpumgrError.__init__(error, texts["message"] or "it failed", **told)
    error.details = {key: data[key] for key in data.keys() - _PLAIN - _DOCUMENT}
    return error


def _tree(kind: type[VgpumgrError]) -> Iterator[type[VgpumgrError]]:
    for below in kind.__subclasses__():
        yield from _tree(below)
    yield kind
