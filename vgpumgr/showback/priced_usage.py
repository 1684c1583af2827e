"""What use cost: each span at the prices of its time, exact, and told so that it adds up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from math import floor

from vgpumgr.model.errors import Conflict, NotFound
from vgpumgr.model.json_times import time_text
from vgpumgr.model.showback import (
    FOREVER,
    MICROSECONDS,
    PriceBook,
    Span,
    UsageKey,
    UsageLine,
    microseconds,
)

HOUR = 3600 * MICROSECONDS


class PriceMissing(NotFound):
    """There is no price for some time, or for some model."""

    code = "not-found.price"


@dataclass(frozen=True, slots=True, kw_only=True)
class PricedSpan:
    """A span in which one price book holds."""

    span: Span
    book: PriceBook


@dataclass(frozen=True, slots=True, kw_only=True)
class PricedLine:
    """A line of use, what an hour of a whole board cost then, and the exact amount."""

    line: UsageLine
    book: PriceBook
    price: Decimal
    cost: Fraction


def priced_spans(books: Sequence[PriceBook], span: Span) -> tuple[PricedSpan, ...]:
    """The span, cut where another price book begins. PriceMissing where none holds yet, Conflict
    where the currency changes within it.
    """
    found = [each for each in _spans(books, span) if each.span.long]
    first = found[0].span.since if found else span.until
    if first > span.since:
        raise PriceMissing(
            f"there are no prices from {_text(span.since)} to {_text(first)}",
            why=f"the first price book begins at {_text(first)}"
            if found
            else "no price book holds",
            next="vgpumgr price apply -f FILE, with an earlier `from`; or --from a later time",
        )
    _refuse_two_currencies(found)
    return tuple(found)


def _spans(books: Sequence[PriceBook], span: Span) -> Iterator[PricedSpan]:
    ordered = sorted(books, key=lambda each: each.begins_at)
    begins = [*(microseconds(each.begins_at) for each in ordered), FOREVER]
    for book, (since, until) in zip(ordered, pairwise(begins), strict=True):
        yield PricedSpan(span=Span(since, until).within(span), book=book)


def _refuse_two_currencies(found: Sequence[PricedSpan]) -> None:
    for before, after in pairwise(found):
        if before.book.currency != after.book.currency:
            at, new = _text(after.span.since), after.book.currency
            raise Conflict(
                f"the currency changes from {before.book.currency} to {new} at {at}",
                next=f"two reports: --to {at} and --from {at}",
            )


def priced(lines: Iterable[UsageLine], book: PriceBook) -> Iterator[PricedLine]:
    """The lines with what they cost; PriceMissing for a model without a price."""
    for line in lines:
        price = book.price(line.model)
        if price is None:
            raise PriceMissing(
                f"{line.model} has no price from {_text(line.span.since)} "
                f"to {_text(line.span.until)}",
                why=f"the price book that begins at {time_text(book.begins_at)} does not name it",
                next="vgpumgr price list, then vgpumgr price apply -f FILE",
            )
        yield PricedLine(
            line=line, book=book, price=price, cost=line.gpu_time * Fraction(price) / HOUR
        )


def _text(at: int) -> str:
    return time_text(at / MICROSECONDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportLine:
    """The GPU time of a key (None: idle) on one model, in microseconds of a whole board, and what
    it cost.
    """

    key: UsageKey | None
    model: str
    gpu_time: Fraction
    cost: Fraction = Fraction()


def summed(lines: Iterable[PricedLine]) -> tuple[ReportLine, ...]:
    """One line for each key and model, over all spans; in the order of their first."""
    found: dict[tuple[UsageKey | None, str], ReportLine] = {}
    for each in lines:
        at = (each.line.key, each.line.model)
        before = found.get(at)
        found[at] = ReportLine(
            key=each.line.key,
            model=each.line.model,
            gpu_time=each.line.gpu_time + (before.gpu_time if before else 0),
            cost=each.cost + (before.cost if before else 0),
        )
    return tuple(sorted(found.values(), key=_order))


def _order(line: ReportLine) -> tuple[bool, UsageKey, str]:
    return line.key is None, line.key or UsageKey(), line.model


def apportioned(exact: Sequence[Fraction], decimals: int) -> tuple[Decimal, ...]:
    """The amounts (0 or more) with that number of decimals. Their sum is that of the exact ones,
    rounded: each is rounded down, and the ones that lost most get one more of the last digit.
    """
    scale = 10**decimals
    scaled = [each * scale for each in exact]
    down = [floor(each) for each in scaled]
    rest = round(sum(scaled, Fraction())) - sum(down)
    lost = sorted(range(len(exact)), key=lambda at: (down[at] - scaled[at], at))
    for at in lost[:rest]:
        down[at] += 1
    return tuple(Decimal(each).scaleb(-decimals) for each in down)
