"""Spans of time among a command's options, and how much of a history is listed."""

from __future__ import annotations

import time
from datetime import datetime

import click


def span(_ctx: click.Context, _param: click.Parameter, text: str | None) -> float | None:
    """``4h`` → 14400.0, for ``callback=``."""
    if text is None:
        return None
    from pydantic import TypeAdapter

    from vgpumgr.spec.durations import Duration, seconds

    try:
        return float(seconds(TypeAdapter(Duration).validate_python(text)))
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is not a duration: like 30s or 5m") from error


def ago(_ctx: click.Context, _param: click.Parameter, text: str | None) -> float | None:
    """``4h``, ``2026-11-24`` or ``2026-11-24T10:00:00Z`` → Unix seconds; without a zone it is local
    time. For ``callback=``.
    """
    if text is None:
        return None
    from vgpumgr.spec.durations import UNITS, seconds

    if text[:-1].isdecimal() and text[-1:] in UNITS and len(text) < _LONGEST_SPAN:
        return time.time() - seconds(text)
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError) as error:
        raise click.BadParameter(
            f"{text!r} is not a time: like 4h, 2d, 2026-11-24 or 2026-11-24T10:00:00Z"
        ) from error


def _at_least_none(_ctx: click.Context, _param: click.Parameter, number: int) -> int:
    if number < 0:
        raise click.BadParameter("a number of records, or 0 for all")
    return number


_LONGEST_SPAN = 9
since_option = click.option(
    "--since", callback=ago, metavar="TIME", help="Only since: 4h (ago), 2d, or 2026-11-24T10:00Z."
)
limit_option = click.option(
    "--limit",
    default=100,
    show_default=True,
    callback=_at_least_none,
    metavar="N",
    help="Only the newest; 0 for all.",
)
