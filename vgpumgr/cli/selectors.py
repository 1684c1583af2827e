"""``-l key=value``, and the names that a shell completes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from typing import TYPE_CHECKING

import click

from vgpumgr.cli.context import Context
from vgpumgr.model.errors import UsageError

if TYPE_CHECKING:
    from vgpumgr.model.ports import Ledger

Selector = tuple[tuple[str, str], ...]
Complete = Callable[[click.Context, click.Parameter, str], list[str]]

_NAMES: Mapping[str, Callable[[Ledger], Iterable[str]]] = {
    "bookings": lambda ledger: (each.id for each in ledger.bookings()),
    "gpus": lambda ledger: (each.id for each in ledger.gpus()),
    "hosts": lambda ledger: (each.name for each in ledger.hosts()),
    "images": lambda ledger: (each.reference for each in ledger.images()),
    "open operations": lambda ledger: (each.id for each in ledger.operations(open_only=True)),
    "operations": lambda ledger: (each.id for each in ledger.operations()),
    "pools": lambda ledger: (each.spec.name for each in ledger.pools()),
    "queue": lambda ledger: (each.vm.name for each in ledger.queue()),
    "tenants": lambda ledger: (each.tenant for each in ledger.quotas()),
    "vms": lambda ledger: (each.name for each in ledger.vms()),
}


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


def completed(kind: str) -> Complete:
    """What completes the names of ``kind``, a key of the table above, from the ledger, which is
    only read; nothing where it cannot be read.
    """

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        root, given = ctx.find_root().params, ctx.params.get(param.name or "")
        try:
            overrides = {key: value for key, value in root.items() if isinstance(value, str)}
            with closing(Context(overrides)) as context:
                found = [str(name) for name in _NAMES[kind](context.app.ledger)]
        except Exception:
            return []
        typed = set(given) if isinstance(given, tuple) else set()
        return sorted({name for name in found if name.startswith(incomplete)} - typed)

    return complete
