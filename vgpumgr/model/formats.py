"""How values are written as text: addresses, versions, sizes, claims, templates, counts, times."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from types import MappingProxyType

_PCI = re.compile(r"([0-9a-f]{4,8}):([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])", re.IGNORECASE)


@dataclass(frozen=True, slots=True, order=True)
class PciAddress:
    """PCI function address, as the kernel prints it: ``0000:41:00.4``."""

    domain: int
    bus: int
    slot: int
    function: int

    @classmethod
    def parse(cls, text: str) -> PciAddress:
        """Read ``0000:41:00.0`` (sysfs) or ``00000000:41:00.0`` (NVML); ValueError otherwise."""
        match = _PCI.fullmatch(text.strip())
        if match is None:
            raise ValueError(f"not a PCI address: {text!r}")
        return cls(*(int(part, 16) for part in match.groups()))

    def __str__(self) -> str:
        return f"{self.domain:04x}:{self.bus:02x}:{self.slot:02x}.{self.function:x}"


# Live moves of a VM with a vGPU (NVIDIA AI Enterprise documentation; OpenStack Nova's guide to
# virtual GPUs).
LIVE_VGPU_NEEDS = MappingProxyType({"libvirt": (8, 6), "qemu": (8, 1), "kernel": (5, 18)})


def version_numbers(version: str) -> tuple[int, ...]:
    """The leading ones: ``6.12.43-amd64`` → (6, 12, 43); () for an unknown version."""
    found = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(map(int, found.group().split("."))) if found else ()


_SIZE = re.compile(r"(\d{1,15})\s*(B|KiB|MiB|GiB|TiB)?")
_FACTOR = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}


def parse_bytes(text: str) -> int:
    """``"8GiB"`` → 8589934592. A binary unit is required; ValueError says what is accepted."""
    match = _SIZE.fullmatch(text.strip())
    if match is None or match.group(2) is None:
        raise ValueError(f"{text!r} is not a size: write a whole number and a unit, like 8GiB")
    return int(match.group(1)) * _FACTOR[match.group(2)]


def parse_mib(text: str) -> int:
    """``"8GiB"`` → 8192; ValueError where the size is not a whole number of MiB."""
    size, rest = divmod(parse_bytes(text), 1 << 20)
    if rest or not size:
        raise ValueError(f"{text!r} is not a positive whole number of MiB")
    return size


def format_mib(mib: int) -> str:
    """8192 → ``8 GiB``; 1536 → ``1.5 GiB``; 512 → ``512 MiB``; from 10,000 GiB on in TiB."""
    if mib < 1024:
        return f"{mib} MiB"
    gib = mib / 1024
    return f"{gib:.4g} GiB" if gib < 9999.5 else f"{gib / 1024:.4g} TiB"


def told_apart(one_mib: int, other_mib: int) -> tuple[str, str]:
    """Two sizes for people, to the MiB where they would read the same."""
    one, other = format_mib(one_mib), format_mib(other_mib)
    if one != other or one_mib == other_mib:
        return one, other
    return f"{one_mib} MiB", f"{other_mib} MiB"


def exact_size(count: int) -> str:
    """Bytes as a user would write them, to the byte: 2147483648 → ``2GiB``, 1000 → ``1000B``."""
    unit = max((u for u, factor in _FACTOR.items() if count % factor == 0), key=_FACTOR.__getitem__)
    return f"{count // _FACTOR[unit]}{unit}"


def size_words(count: int) -> str:
    """Bytes for people: 1610612736 → ``1.5 GiB``; less than a MiB is ``1 MiB``."""
    return format_mib(max(1, -(-count // (1 << 20))))


FABRIC_CLAIM = "fabric-"
LAYOUT_CLAIM = "layout-"


def mdev_claim(uuid: str) -> str:
    """A mediated device."""
    return f"mdev-{uuid}"


def pci_claim(address: str) -> str:
    """A PCI function, by its address."""
    return f"pci-{address}"


def layout_claim(address: str) -> str:
    """The layout of the GPU at a PCI address."""
    return f"{LAYOUT_CLAIM}{address}"


def fabric_claim(partition: int) -> str:
    """An NVSwitch partition."""
    return f"{FABRIC_CLAIM}{partition}"


TEMPLATE_NAMES = ("host", "name", "tenant")
_PLACE = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)


def fill_template(text: str, values: Mapping[str, str]) -> str:
    """Put the values in; ValueError for a name that is none of theirs."""

    def value(found: re.Match[str]) -> str:
        name = found[1].strip()
        if name not in values:
            known = ", ".join(sorted(values))
            raise ValueError(f"{{{{ {name[:40]} }}}} is not known: there are {known}")
        return values[name]

    return _PLACE.sub(value, text)


_NUMBERED = re.compile(r"(.*?)(\d+)(\D*)")


def spanned(names: Sequence[str], shown: int = 2) -> str:
    """``a-01 … a-32`` where the numbers follow each other, else ``a-01, a-03 and 7 more``."""
    if len(names) > shown and _follow(names):
        return f"{names[0]} … {names[-1]}"
    if len(names) <= shown + 1:
        return ", ".join(names)
    return f"{', '.join(names[:shown])} and {len(names) - shown} more"


def ranges(numbers: Iterable[int], between: str = ",") -> str:
    """``0-3,8``, in order."""
    runs: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][1] == number - 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return between.join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def _follow(names: Sequence[str]) -> bool:
    parts = [_NUMBERED.fullmatch(name) for name in names]
    found = [(each[1], int(each[2]), each[3]) for each in parts if each]
    return len(found) == len(names) and all(
        (one[0], one[1] + 1, one[2]) == other for one, other in pairwise(found)
    )


def span_words(seconds: float) -> str:
    """A span of time, rounded up: ``40 s``, ``12 min``, ``4 h``, ``3 d``."""
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{math.ceil(seconds / size)} {unit}"
    return f"{math.ceil(max(0.0, seconds))} s"


def clock(at: float) -> str:
    """The local time of day of a Unix time, to the minute: ``10:15``."""
    return datetime.fromtimestamp(at).strftime("%H:%M")


def counted(number: int, word: str) -> str:
    """``1 GPU``, ``2 GPUs``."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


_LONGEST_LINE = 1000
# What a JSON text may hold and UTF-8 may not.
SURROGATE = re.compile("[\ud800-\udfff]")


def spoken(text: str) -> str:
    """Text for people: one line of at most 1,000 characters, lone surrogates replaced."""
    cut = text if len(text) <= _LONGEST_LINE else f"{text[:_LONGEST_LINE]} …"
    cut = " ".join(filter(None, map(str.strip, cut.split("\n")))) if "\n" in cut else cut
    return cut if cut.isascii() else SURROGATE.sub("\ufffd", cut)
