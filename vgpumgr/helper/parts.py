"""Reading a probe part by part: what cannot be read is named, and nothing else suffers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from vgpumgr.helper import errors
from vgpumgr.helper.errors import HelperError

T = TypeVar("T")


class Parts:
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
            self.miss(part, errors.reason(error))
        except ValueError as error:
            self.miss(part, str(error))
        except Exception as defect:
            # A probe never fails: one part with a shape nobody foresaw must not hide the rest.
            self.miss(part, f"{type(defect).__name__}: {defect}")
        return None

    def miss(self, part: str, why: str) -> None:
        """Note that a part could not be read."""
        self.unknown.append({"part": part, "why": why})
