"""Costs as rows of FOCUS 1.2, which tools of cost management read.

Columns and their meaning: FinOps Open Cost and Usage Specification 1.2, https://focus.finops.org.
What it asks for as mandatory is all there; columns of our own begin with ``x_``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from types import MappingProxyType

from vgpumgr.model.showback import MICROSECONDS, Span, UsageKey, microseconds
from vgpumgr.showback.priced_usage import HOUR, PricedLine, apportioned

PROVIDER = "vgpumgr"
UNIT = "GPU-Hours"
_HOUR_DIGITS, _MORE_DIGITS = 9, 6
FOCUS_COLUMNS = (
    "BilledCost",
    "BillingAccountId",
    "BillingAccountName",
    "BillingCurrency",
    "BillingPeriodEnd",
    "BillingPeriodStart",
    "ChargeCategory",
    "ChargeClass",
    "ChargeDescription",
    "ChargeFrequency",
    "ChargePeriodEnd",
    "ChargePeriodStart",
    "ConsumedQuantity",
    "ConsumedUnit",
    "ContractedCost",
    "ContractedUnitPrice",
    "EffectiveCost",
    "InvoiceIssuerName",
    "ListCost",
    "ListUnitPrice",
    "PricingCategory",
    "PricingQuantity",
    "PricingUnit",
    "ProviderName",
    "PublisherName",
    "ResourceId",
    "ResourceName",
    "ResourceType",
    "ServiceCategory",
    "ServiceName",
    "ServiceSubcategory",
    "SkuId",
    "SkuPriceId",
    "SubAccountId",
    "SubAccountName",
    "x_Idle",
    "x_Pool",
    "x_Profile",
)
FocusRow = dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class FocusBill:
    """What the rows are part of: the fleet's id, and the span of the report."""

    account: str
    span: Span

    def rows(self, lines: Sequence[PricedLine]) -> tuple[FocusRow, ...]:
        """A row for each line, an empty text where FOCUS has null. Costs have six digits more than
        the currency, and add up; so do the hours.
        """
        digits = max((each.book.decimals for each in lines), default=2) + _MORE_DIGITS
        costs = apportioned([each.cost for each in lines], digits)
        hours = apportioned([each.line.gpu_time / HOUR for each in lines], _HOUR_DIGITS)
        together = zip(lines, hours, costs, strict=True)
        return tuple(self._row(line, hour, cost) for line, hour, cost in together)

    def _row(self, priced: PricedLine, hours: Decimal, cost: Decimal) -> FocusRow:
        line = priced.line
        row = {
            "BillingAccountId": self.account,
            **_CONSTANT,
            **_period("Billing", self.span),
            **_period("Charge", line.span),
            **_priced(priced),
            **dict.fromkeys(_QUANTITIES, f"{hours:f}"),
            **dict.fromkeys(_COSTS, f"{cost:f}"),
            **(_idle(line.model) if line.key is None else _of_vm(line.key, line.model)),
        }
        return {name: row.get(name, "") for name in FOCUS_COLUMNS}


_QUANTITIES = ("PricingQuantity", "ConsumedQuantity")
_COSTS = ("BilledCost", "EffectiveCost", "ListCost", "ContractedCost")
_CONSTANT = MappingProxyType(
    {
        "ChargeCategory": "Usage",
        "ChargeFrequency": "Usage-Based",
        "PricingCategory": "Standard",
        "ServiceCategory": "Compute",
        "ServiceName": "GPU",
        **dict.fromkeys(("ProviderName", "PublisherName", "InvoiceIssuerName"), PROVIDER),
        **dict.fromkeys(("PricingUnit", "ConsumedUnit"), UNIT),
    }
)


def _priced(priced: PricedLine) -> FocusRow:
    model, begins = priced.line.model, microseconds(priced.book.begins_at)
    return {
        "BillingCurrency": priced.book.currency,
        **dict.fromkeys(("ListUnitPrice", "ContractedUnitPrice"), f"{priced.price:f}"),
        "SkuId": model,
        "SkuPriceId": f"{model}@{_time(begins)}",
    }


def _of_vm(key: UsageKey, model: str) -> FocusRow:
    return {
        "ChargeDescription": f"{key.profile} on {model}, VM {key.vm}",
        "ServiceSubcategory": "Virtual Machines",
        "ResourceId": key.vm_id,
        "ResourceName": key.vm,
        "ResourceType": "VM",
        "SubAccountId": key.tenant,
        "SubAccountName": key.tenant,
        "x_Idle": "false",
        "x_Pool": key.pool,
        "x_Profile": key.profile,
    }


def _idle(model: str) -> FocusRow:
    return {
        "ChargeDescription": f"{model}, held by no VM",
        "ServiceSubcategory": "Other (Compute)",
        "x_Idle": "true",
    }


def _period(name: str, span: Span) -> FocusRow:
    return {
        f"{name}PeriodStart": _time(span.since),
        f"{name}PeriodEnd": _time(span.until),
    }


def _time(at: int) -> str:
    """``2026-11-24T10:00:00Z``: FOCUS has whole seconds."""
    return datetime.fromtimestamp(at // MICROSECONDS, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
