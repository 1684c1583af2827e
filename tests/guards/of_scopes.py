"""The guards of tenants: each filter of what a scope shows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from unittest import mock

from sqlalchemy import true

from tests.guards.registry import Guard, Happened, Place
from tests.two_tenants import BLUE, OF_FILTERS, RED, TwoTenants, leaks
from vgpumgr.store.ledger.tenant_filters import FILTERS

_READS = 60


def another_tenants_things_shown(place: Place, kind: str) -> None:
    """One tenant's user reads what this filter is for, again and again."""
    both = TwoTenants(place.ledger)
    told = next(leaks(both.within(BLUE), RED, _READS, [OF_FILTERS[kind]]), "")
    both.close()
    if told:
        raise Happened(told)


def _scenario(kind: str) -> Callable[[Place], None]:
    return partial(another_tenants_things_shown, kind=kind)


GUARDS = tuple(
    Guard(
        f"scope of {kind}",
        "store/ledger/tenant_filters.py: FILTERS",
        f"a tenant reads {kind} of another",
        partial(mock.patch.dict, FILTERS, {kind: lambda _: true()}),
        _scenario(kind),
    )
    for kind in FILTERS
)
