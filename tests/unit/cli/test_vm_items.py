"""`vm list`: which domains of the hosts are listed as foreign ones, after our VMs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from vgpumgr.endpoints.vm_items import vm_items
from vgpumgr.model.domain import DomainFacts, DomainState, Ownership
from vgpumgr.model.host import HostFacts, HostRecord, Versions

MARKED = Ownership(fleet="f", vm="web", vm_id="v", generation=1)


@pytest.mark.parametrize(
    ("evacuated", "ownership", "listed"),
    [
        (False, None, ["web"]),
        (False, MARKED, ["web"]),
        (True, None, ["web"]),
        (True, MARKED, []),
    ],
)
def test_what_an_evacuated_vm_left_is_not_listed(
    evacuated: bool, ownership: Ownership | None, listed: list[str]
) -> None:
    domain = DomainFacts(name="web", uuid="u", state=DomainState.RUNNING, ownership=ownership)
    facts = HostFacts(
        host="h1", boot_id="b", hostname="h1", versions=Versions(), cpus=1, memory_mib=1,
        iommu=True, kvm=True, domains=(domain,),
    )  # fmt: skip
    host = HostRecord(name="h1", address="local", facts=facts, evacuated=evacuated)
    ledger: Any = SimpleNamespace(
        allocations=lambda: (), vms=lambda: (), logoff_moves=lambda: (), hosts=lambda: (host,)
    )
    assert [each["name"] for each in vm_items(ledger)] == listed
