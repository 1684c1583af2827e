"""The endpoints of price books: list, apply, remove."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from typing_extensions import TypedDict

from vgpumgr.access.permission import Permission
from vgpumgr.endpoints.call_context import CallContext
from vgpumgr.endpoints.documents import DocumentText, source_name
from vgpumgr.endpoints.endpoint import Endpoint, HttpMethod, ParameterLimits, Result
from vgpumgr.endpoints.shapes import ItemList, Nothing, Time
from vgpumgr.model.errors import UsageError
from vgpumgr.model.json_times import instant, time_text
from vgpumgr.model.showback import PriceBook


class ModelPrice(TypedDict):
    """What an hour of a whole board of a model (``*``: any other) costs, as a decimal."""

    model: str
    gpu_hour: str


class PriceBookItem(TypedDict):
    """Prices from ``begins_at`` on until others begin (null: none do); amounts are told with
    ``decimals`` digits.
    """

    name: str
    begins_at: Time
    until: Time | None
    currency: str
    decimals: int
    prices: list[ModelPrice]


def list_prices(context: CallContext, _: Nothing) -> Result[ItemList[PriceBookItem]]:
    """Every price book, by when it begins."""
    return Result(answer={"items": _items(context)})


def _items(context: CallContext) -> list[PriceBookItem]:
    books = context.app.ledger.price_books()
    ends = [*(each.begins_at for each in books[1:]), None]
    return [_item(book, until) for book, until in zip(books, ends, strict=False)]


def _item(book: PriceBook, until: float | None) -> PriceBookItem:
    return {
        "name": time_text(book.begins_at),
        "begins_at": book.begins_at,
        "until": until,
        "currency": book.currency,
        "decimals": book.decimals,
        "prices": [
            {"model": model, "gpu_hour": price} for model, price in sorted(book.gpu_hour.items())
        ],
    }


def apply_prices(context: CallContext, asked: DocumentText) -> Result[ItemList[PriceBookItem]]:
    """Write the price books of a file, each over the one that begins at its time; answers with all
    there are.
    """
    from vgpumgr.spec.price_document import load_prices

    text = asked.text.encode(errors="surrogatepass")
    for book in load_prices(text, source_name(asked.source)):
        context.app.writable_ledger.set_price_book(book)
    return Result(answer={"items": _items(context)})


@dataclass(frozen=True, slots=True, kw_only=True)
class OnePriceBook:
    """A price book by the time (with its zone) at which it begins."""

    begins_at: Annotated[str, ParameterLimits(min_length=1, max_length=40)]


class PriceBookName(TypedDict):
    """A price book."""

    name: str


def remove_prices(context: CallContext, asked: OnePriceBook) -> Result[PriceBookName]:
    """Remove a price book: the one before it holds on. NotFound where none begins then."""
    try:
        begins_at = instant(asked.begins_at)
    except (ValueError, OverflowError) as error:
        raise UsageError(
            f"{asked.begins_at} is not a time with its zone", next="vgpumgr price list"
        ) from error
    context.app.writable_ledger.remove_price_book(begins_at)
    return Result(answer={"name": time_text(begins_at)})


LIST_PRICES = Endpoint(
    name="price.list",
    method=HttpMethod.GET,
    path="/prices",
    permission=Permission.REPORT_READ,
    summary="What an hour of a GPU costs, and from when on.",
    asks=Nothing,
    answers=ItemList[PriceBookItem],
    kind="PriceBookList",
    work=list_prices,
    scoped=True,
)
APPLY_PRICES = Endpoint(
    name="price.apply",
    method=HttpMethod.POST,
    path="/prices:apply",
    permission=Permission.PRICE_WRITE,
    summary="Write the price books of a file.",
    asks=DocumentText,
    answers=ItemList[PriceBookItem],
    kind="PriceBookList",
    work=apply_prices,
)
REMOVE_PRICES = Endpoint(
    name="price.remove",
    method=HttpMethod.POST,
    path="/prices:remove",
    permission=Permission.PRICE_WRITE,
    summary="Remove a price book.",
    asks=OnePriceBook,
    answers=PriceBookName,
    kind="PriceBook",
    work=remove_prices,
)

ENDPOINTS: Sequence[Endpoint[Any, Any]] = (LIST_PRICES, APPLY_PRICES, REMOVE_PRICES)
