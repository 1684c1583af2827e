"""Quotas as ``vgpumgr quota`` shows them: what is held, of how much."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from vgpumgr.model.codec import to_plain
from vgpumgr.model.holding import held_by_tenants
from vgpumgr.model.ports import Ledger
from vgpumgr.model.quota import Amount, Quota
from vgpumgr.model.size import format_mib

Item = Mapping[str, Any]


def quota_items(ledger: Ledger, tenant: str = "") -> list[dict[str, Any]]:
    """Every tenant that has a quota or holds something (or the one named), by name."""
    quotas = {each.tenant: each for each in ledger.quotas()}
    held = held_by_tenants(ledger.vms(), ledger.allocations(), ledger.gpus())
    return [
        _item(quotas.get(name, Quota(tenant=name)), held.get(name, Amount()))
        for name in sorted({*quotas, *held})
        if tenant in {"", name}
    ]


def _item(quota: Quota, held: Amount) -> dict[str, Any]:
    limits: Any = to_plain(quota)
    reserved, weight = limits.pop("reserved"), limits.pop("weight")
    tenant = limits.pop("tenant")
    return {
        "name": tenant,
        "tenant": tenant,
        "limits": limits,
        "used": to_plain(held),
        "reserved": reserved,
        "weight": weight,
    }


def limit_text(name: str) -> Callable[[Item], str]:
    """``88 GiB of 96 GiB``; without a limit what is held alone."""

    def text(item: Item) -> str:
        used, limit = (_amount(name, item[part][name]) for part in ("used", "limits"))
        return f"{used} of {limit}" if item["limits"][name] is not None else used

    return text


def profiles_text(item: Item) -> str:
    """``A40-8Q 3 of 10``, of profiles that are limited."""
    used, limits = item["used"]["profiles"], item["limits"]["profiles"]
    return ", ".join(f"{name} {used.get(name, 0)} of {limits[name]}" for name in sorted(limits))


def _amount(name: str, number: int | None) -> str:
    if name == "gpu_memory_mib" and number:
        return format_mib(number)
    return str(number)
