"""Spans of time among a command's options."""

from __future__ import annotations

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
        raise click.BadParameter(f"{text!r} is no duration: like 30s or 5m") from error
