"""``-l key=value``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import click

from vgpumgr.model.errors import UsageError

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
    help="Only with this label; may be repeated.",
)


def matches(labels: Mapping[str, str], selector: Selector) -> bool:
    """Do the labels have every pair?"""
    return all(labels.get(key) == value for key, value in selector)
