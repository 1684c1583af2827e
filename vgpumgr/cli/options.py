"""Options that several commands share: --refresh, -l, --since, --limit, and profile names."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime

import click

from vgpumgr.cli.command_context import Context
from vgpumgr.endpoints import known_profiles
from vgpumgr.model.errors import PartlyDone, UsageError

refresh_option = click.option("--refresh", is_flag=True, help="Probe the hosts first.")


@contextmanager
def refreshed(context: Context, wanted: bool, hosts: Iterable[str] = ()) -> Iterator[None]:
    """Probe these hosts (all without names) if wanted; what was read is printed nevertheless."""
    unread: tuple[str, ...] = ()
    if wanted and context.app.ledger.hosts():
        failed = context.app.engine.refresh(hosts).failed
        unread = tuple(f"{name}: {error.message}" for name, error in sorted(failed.items()))
    yield
    require_all_read(unread)


def require_all_read(unread: tuple[str, ...]) -> None:
    """PartlyDone when hosts could not be read: what was said holds for the others."""
    if unread:
        raise PartlyDone(
            f"{len(unread)} {'host' if len(unread) == 1 else 'hosts'} could not be read",
            why="; ".join(unread[:5]),
            next="vgpumgr doctor",
        )


Selector = tuple[tuple[str, str], ...]


def parse_pairs(texts: Iterable[str], flag: str) -> Iterator[tuple[str, str]]:
    """``KEY=VALUE`` texts as pairs; UsageError for what is no pair."""
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise UsageError(f"{flag} {text}: not KEY=VALUE")
        yield key, value


def _selector(_ctx: click.Context, _param: click.Parameter, texts: tuple[str, ...]) -> Selector:
    return tuple(parse_pairs(texts, "-l"))


selector_option = click.option(
    "-l",
    "--selector",
    multiple=True,
    callback=_selector,
    metavar="KEY=VALUE",
    help="Only items with this label; may be repeated.",
)


def matches(labels: Mapping[str, str], selector: Selector) -> bool:
    """Do the labels have every pair?"""
    return all(labels.get(key) == value for key, value in selector)


def span(_ctx: click.Context, _param: click.Parameter, text: str | None) -> float | None:
    """``4h`` → 14400.0, for ``callback=``."""
    if text is None:
        return None
    from pydantic import TypeAdapter

    from vgpumgr.spec.fields import Duration, seconds

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
    from vgpumgr.spec.fields import UNITS, seconds

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


def known_profile(context: Context, name: str) -> str:
    """The name as placement writes it; UnknownProfile where neither the catalogue nor a probed
    GPU knows it.
    """
    return known_profiles.known_profile(context.app.ledger, name)


guest_timeout_option = click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(0, 86400),
    default=60.0,
    show_default=True,
    help="Seconds to wait for the guest.",
)
"""How long a guest may take to power off."""
