"""Whose each row of what was held is, as far as a report tells it apart."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from vgpumgr.model.showback import HeldRows, ReportBy, UsageKey
from vgpumgr.showback.exact_sums import Whole

K = TypeVar("K", bound=Hashable)


class Numbered(NamedTuple, Generic[K]):
    """Things that differ, and which one is at every place."""

    known: list[K]
    of: Whole


def numbered(things: Sequence[K], known: Sequence[K] = ()) -> Numbered[K]:
    """Number things by their places in ``known``; without it, by which came first."""
    distinct = list(known or dict.fromkeys(things))
    number = {each: at for at, each in enumerate(distinct)}
    of = np.fromiter(map(number.__getitem__, things), np.int64, len(things))
    return Numbered(distinct, of)


def owners(rows: HeldRows, pools: Mapping[str, str], by: ReportBy) -> Numbered[UsageKey]:
    """The key of every row. VMs are told apart by their ids: names are given again."""
    found: Numbered[Hashable] = numbered(_column(rows, pools, by))
    row = np.empty(len(found.known), dtype=np.int64)
    row[found.of] = np.arange(len(found.of))
    return Numbered([_key(rows, at, pools, by) for at in row.tolist()], found.of)


def _column(rows: HeldRows, pools: Mapping[str, str], by: ReportBy) -> Sequence[Hashable]:
    match by:
        case ReportBy.TENANT:
            return rows.tenants
        case ReportBy.VM:
            return rows.vm_ids
        case ReportBy.PART:
            return list(zip(rows.vm_ids, rows.profiles, strict=True))
        case ReportBy.POOL:
            pool_of = (pools.get(each, "") for each in rows.vm_ids)
            return list(zip(rows.tenants, pool_of, strict=True))


def _key(rows: HeldRows, row: int, pools: Mapping[str, str], by: ReportBy) -> UsageKey:
    tenant, vm_id = rows.tenants[row], rows.vm_ids[row]
    if by is ReportBy.TENANT:
        return UsageKey(tenant)
    pool = pools.get(vm_id, "")
    if by is ReportBy.POOL:
        return UsageKey(tenant, pool)
    profile = rows.profiles[row] if by is ReportBy.PART else ""
    return UsageKey(tenant, pool, rows.vms[row], vm_id, profile)
