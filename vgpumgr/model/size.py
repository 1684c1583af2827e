"""Sizes as users write them (``8GiB``) and as we keep them (MiB or bytes, in the name)."""

from __future__ import annotations

import re

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
    """Both for people, to the MiB where they would read alike."""
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
