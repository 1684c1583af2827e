"""``-l key=value``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import click

from vgpumgr.model.errors import UsageError

selector_option = click.option(
    "-l", "--selector", multiple=True, metavar="KEY=VALUE", help="Only with this label."
)


def parse_pairs(texts: Iterable[str], flag: str) -> Iterator[tuple[str, str]]:
    """``KEY=VALUE`` texts as pairs; UsageError for what is no pair."""
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise UsageError(f"{flag} {text}: not KEY=VALUE")
        yield key, value


def matches(labels: Mapping[str, str], selectors: Iterable[str]) -> bool:
    """Do the labels have every pair?"""
    return all(labels.get(key) == value for key, value in list(parse_pairs(selectors, "-l")))
