"""``kind: PriceBook``: what an hour of a GPU costs, from a time on."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from vgpumgr.model.json_times import instant
from vgpumgr.model.showback import CURRENCY, MOST_DECIMALS, PRICE, PriceBook
from vgpumgr.spec.fields import Line, Strict, refuse
from vgpumgr.spec.single_kind import load_documents

_MOST_MODELS = 1000


def _instant(text: str) -> str:
    try:
        whole = instant(text).is_integer()
    except (ValueError, OverflowError):
        refuse("is not a time with its zone, like 2026-01-01T00:00:00Z")
    if not whole:
        refuse("must be a whole second")
    return text


def _currency(text: str) -> str:
    if not re.fullmatch(CURRENCY, text):
        refuse("is not a currency: three capital letters, like EUR")
    return text


def _price(text: str) -> str:
    if not re.fullmatch(PRICE, text):
        refuse('is not a price: at most nine digits, and nine after the point, like "2.40"')
    return text


class ModelPriceModel(Strict):
    """What an hour of a whole board of one model (``*``: any other) costs."""

    model: Line
    gpu_hour: Annotated[str, AfterValidator(_price)]


class PriceBookModel(Strict):
    """Prices from a time on; the next document ends them."""

    api_version: Literal["vgpumgr/v1"] = Field(alias="apiVersion")
    kind: Literal["PriceBook"]
    begins: Annotated[str, AfterValidator(_instant)] = Field(alias="from")
    currency: Annotated[str, AfterValidator(_currency)]
    decimals: int = Field(default=2, ge=0, le=MOST_DECIMALS)
    prices: list[ModelPriceModel] = Field(min_length=1, max_length=_MOST_MODELS)

    @model_validator(mode="after")
    def _once_each(self) -> PriceBookModel:
        models = [each.model for each in self.prices]
        for number, name in enumerate(models):
            if name in models[:number]:
                refuse(f"{name} has a price already", "prices", number, "model")
        return self

    def value(self) -> PriceBook:
        """The prices in the model's words."""
        return PriceBook(
            begins_at=instant(self.begins),
            currency=self.currency,
            decimals=self.decimals,
            gpu_hour={each.model: each.gpu_hour for each in self.prices},
        )


def load_prices(data: bytes | str, source: str) -> tuple[PriceBook, ...]:
    """The price books of a file, in its order; ``source`` is its name in messages. SpecError with
    every problem found.
    """
    return load_documents(
        data,
        source,
        PriceBookModel,
        PriceBookModel.value,
        lambda it: it.begins_at,
        at="from",
        again="another document begins then",
    )
