"""The helper's one exception, its codes for the kernel's errno, and a probe's unread parts."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

BAD_ARGUMENT = "bad-argument"
NOT_PERMITTED = "not-permitted"
IN_USE = "in-use"
CLAIM_MISMATCH = "claim-mismatch"
STALE_EPOCH = "stale-epoch"
NOT_FOUND = "not-found"
REFUSED = "refused"
UNKNOWN = "unknown"

_BY_ERRNO = {
    errno.EPERM: NOT_PERMITTED,
    errno.EACCES: NOT_PERMITTED,
    errno.EBUSY: IN_USE,
    errno.ENOENT: NOT_FOUND,
    errno.ENODEV: NOT_FOUND,
    errno.ENXIO: NOT_FOUND,
}


class HelperError(Exception):
    """What the caller gets instead of a result. ``errno_name`` is empty where none applies."""

    def __init__(self, code: str, message: str, why: str = "", errno_name: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.why = why
        self.errno_name = errno_name

    @contextlib.contextmanager
    def taking_back(self) -> Iterator[None]:
        """Undoing what was refused half-way; where that is refused too, ``why`` says so.

        An OSError passes: what could not be looked at is unknown, and no refusal.
        """
        try:
            yield
        except HelperError as stuck:
            self.why = f"{self.why}; it could not be undone either: {stuck}"

    def as_dict(self) -> dict[str, str | None]:
        """The ``error`` object of an answer."""
        return {
            "code": self.code,
            "message": self.message,
            "why": self.why,
            "errno": self.errno_name or None,
        }


def errno_name(error: OSError) -> str:
    """``EBUSY`` and the like; empty when the error carries no number."""
    return errno.errorcode.get(error.errno or 0, "")


def reason(error: OSError) -> str:
    """The kernel's words and the file they are about."""
    words = error.strerror or str(error) or type(error).__name__
    return f"{words}: {error.filename}" if error.filename else words


def from_effect(error: OSError, message: str) -> HelperError:
    """A write that the kernel or a driver answered with an errno: nothing was done."""
    code = _BY_ERRNO.get(error.errno or 0, REFUSED)
    return HelperError(code, message, reason(error), errno_name(error))


def from_read(error: OSError, message: str) -> HelperError:
    """Something that had to be read could not be: the state is unknown."""
    permission = error.errno in (errno.EPERM, errno.EACCES)
    code = NOT_PERMITTED if permission else UNKNOWN
    return HelperError(code, message, reason(error), errno_name(error))


T = TypeVar("T")


class ProbeParts:
    """Collects the ``unknown`` entries of one probe."""

    def __init__(self) -> None:
        self.unknown: list[dict[str, str]] = []

    def read(self, part: str, function: Callable[..., T], *given: Any) -> T | None:
        """What ``function`` returns, or None after noting why it could not."""
        try:
            return function(*given)
        except HelperError as error:
            self.miss(part, f"{error.message}: {error.why}" if error.why else error.message)
        except OSError as error:
            self.miss(part, reason(error))
        except ValueError as error:
            self.miss(part, str(error))
        except Exception as defect:
            # A probe never fails: one part with a shape nobody foresaw must not hide the rest.
            self.miss(part, f"{type(defect).__name__}: {defect}")
        return None

    def miss(self, part: str, why: str) -> None:
        """Note that a part could not be read."""
        self.unknown.append({"part": part, "why": why})
