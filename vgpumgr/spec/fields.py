"""Field types of the documents: bounded, checked, described; with durations and replica names."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, NamedTuple, NoReturn

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
)
from pydantic_core import PydanticCustomError

from vgpumgr.model.formats import parse_bytes, parse_mib
from vgpumgr.model.vm import NAME

API_VERSION = "vgpumgr/v1"
KIB, MIB, TIB = 1 << 10, 1 << 20, 1 << 40
_SIZE = r"[0-9]{1,15} ?(B|KiB|MiB|GiB|TiB)"
_LABEL = r"[A-Za-z0-9]([A-Za-z0-9._/-]{0,61}[A-Za-z0-9])?"
_ADDRESS = (
    r"local|sim://[a-z0-9][a-z0-9-]{0,62}|([A-Za-z0-9_][A-Za-z0-9_.-]{0,31}@)?[^\s@/-][^\s@/]*"
)
_HUGEPAGES = {2 * MIB, 1024 * MIB}


class Key(NamedTuple):
    """One sentence about a key, an example line of a document that has it, what it counts.

    The line is of the document's own level, also for a key of a part: ``disks: [{size: 20GiB}]``.
    ``unit`` is empty where the value says its unit itself (8GiB, 15m) or counts nothing.
    """

    sentence: str
    example: str
    unit: str = ""


class Strict(BaseModel):
    """No unknown keys, no silent conversions."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


NAMED, RULES = "[name]", "[rules]"
"""Tags that no error shows, of a key whose value is a name, or keys of its own."""


def name_or_rules(value: object) -> str:
    """Which of the two a file says: errors are about that one alone."""
    return RULES if isinstance(value, dict | BaseModel) else NAMED


def refuse(message: str, *at: str | int) -> NoReturn:
    """Report a rule that this model breaks, at the key path ``at`` below it."""
    # PydanticCustomError fills {…} from its context: the message is such a value, never a template.
    raise PydanticCustomError("rule", "{message}", {"message": message, "at": at})


def refuse_unshown(message: str, *at: str | int) -> NoReturn:
    """The same of a value that is not to be shown again."""
    raise PydanticCustomError("unshown", "{message}", {"message": message, "at": at})


def _matches(pattern: str, says: str) -> Callable[[str], str]:
    compiled = re.compile(pattern)

    def check(text: str) -> str:
        if compiled.fullmatch(text) is None:
            refuse(says)
        return text

    return check


def _printable(text: str) -> str:
    if not text.isprintable():
        refuse("holds a line break or another character that cannot be printed")
    return text


def _object_name(text: str) -> str:
    if "/" in text or text in {".", ".."} or text.startswith("-"):
        refuse("is not a name of a pool, volume or network: no / and no leading -")
    return _printable(text)


def _with_unit(value: object) -> object:
    if not isinstance(value, str):
        refuse("is not a size: write a whole number and a unit, like 8GiB")
    return value


def _memory(text: str) -> str:
    if not 64 <= parse_mib(text) <= 64 * MIB:
        refuse("must be from 64MiB to 64TiB")
    return text


def _bandwidth(text: str) -> str:
    if not 1 <= parse_mib(text) <= MIB:
        refuse("must be from 1MiB to 1TiB (per second)")
    return text


def _rate(text: str) -> str:
    size = parse_bytes(text)
    if not KIB <= size <= TIB or size % KIB:
        refuse("must be from 1KiB to 1TiB (per second), in whole KiB")
    return text


def _disk_size(text: str) -> str:
    if not MIB <= parse_bytes(text) <= 1024 * TIB:
        refuse("must be from 1MiB to 1024TiB")
    return text


def _hugepages(text: str) -> str:
    if parse_bytes(text) not in _HUGEPAGES:
        refuse("must be 2MiB or 1GiB")
    return text


_describe = Field(json_schema_extra={"pattern": f"^{_SIZE}$"})

Line = Annotated[str, StringConstraints(min_length=1, max_length=255), AfterValidator(_printable)]
Text = Annotated[str, StringConstraints(max_length=256 * KIB)]
Name = Annotated[
    str,
    AfterValidator(
        _matches(
            NAME,
            "is not a name: at most 63 lower-case letters, digits and hyphens, no leading hyphen",
        )
    ),
    Field(json_schema_extra={"pattern": f"^{NAME}$"}),
]
ObjectName = Annotated[
    str, StringConstraints(min_length=1, max_length=255), AfterValidator(_object_name)
]
Bridge = Annotated[
    str,
    AfterValidator(
        _matches(
            r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,14}",
            "is not an interface name: at most 15 letters, digits and _ . -",
        )
    ),
    Field(json_schema_extra={"pattern": r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,14}$"}),
]
Address = Annotated[
    str,
    StringConstraints(max_length=255),
    AfterValidator(
        _matches(
            _ADDRESS, "is not an address: write USER@HOST or USER@HOST:PORT, local, or sim://NAME"
        )
    ),
    AfterValidator(_printable),
]
Reachable = Annotated[
    str,
    StringConstraints(min_length=1, max_length=253),
    AfterValidator(
        _matches(r"[A-Za-z0-9:][A-Za-z0-9.:_-]*", "is not a host name or IP address, without port")
    ),
]
LabelKey = Annotated[
    str,
    AfterValidator(_matches(_LABEL, "is not a label name: at most 63 letters, digits and . _ / -")),
]
Labels = Annotated[dict[LabelKey, Line], Field(max_length=64)]

Memory = Annotated[str, BeforeValidator(_with_unit), AfterValidator(_memory), _describe]
Bandwidth = Annotated[str, BeforeValidator(_with_unit), AfterValidator(_bandwidth), _describe]
Rate = Annotated[str, BeforeValidator(_with_unit), AfterValidator(_rate), _describe]
DiskSize = Annotated[str, BeforeValidator(_with_unit), AfterValidator(_disk_size), _describe]
Hugepages = Annotated[
    str,
    BeforeValidator(_with_unit),
    AfterValidator(_hugepages),
    Field(json_schema_extra={"examples": ["2MiB", "1GiB"]}),
]


UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_DURATION = r"[0-9]{1,7}[smhd]"
_LONGEST_S = 366 * 86_400


def _duration(value: object) -> object:
    if not isinstance(value, str) or re.fullmatch(_DURATION, value) is None:
        refuse("is not a duration: write a whole number and s, m, h or d, like 4h")
    return value


def _bounded(text: str) -> str:
    if not 1 <= seconds(text) <= _LONGEST_S:
        refuse("must be from 1s to 366d")
    return text


def seconds(text: str) -> int:
    """``4h`` → 14400."""
    return int(text[:-1]) * UNITS[text[-1]]


def duration(count: float) -> str:
    """14400 → ``4h``: as a user would write it."""
    whole = round(count)
    unit = max((u for u, s in UNITS.items() if whole % s == 0), key=UNITS.__getitem__)
    return f"{whole // UNITS[unit]}{unit}"


Duration = Annotated[
    str,
    BeforeValidator(_duration),
    AfterValidator(_bounded),
    Field(json_schema_extra={"pattern": f"^{_DURATION}$"}),
]


_PERCENT = r"[0-9]{1,3}(\.[0-9]{1,2})?%"


def _percent(text: str) -> str:
    if re.fullmatch(_PERCENT, text) is None:
        refuse("is not a share: write one like 90%")
    if not 0 < float(text[:-1]) <= 100:
        refuse("is not a share above 0% and up to 100%")
    return text


def share(text: str) -> float:
    """``90%`` → 0.9."""
    return float(text[:-1]) / 100


Percent = Annotated[
    str, AfterValidator(_percent), Field(json_schema_extra={"pattern": f"^{_PERCENT}$"})
]


MAX_REPLICAS = 10_000


def replica_names(name: str, count: int) -> list[str]:
    """``web`` × 3 → ``web-01`` … ``web-03``.

    Two digits whatever the count: a group that grows past 99 must not rename those it has.
    """
    return [f"{name}-{number:02d}" for number in range(1, count + 1)]
