"""A disk that a running guest is given for a while, as users' profile disks are."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.contract.bench import Cases
from tests.contract.disk_bench import MIB, DiskBench
from vgpumgr import domainxml
from vgpumgr.domainxml.plugged_disk_xml import disk_of, disk_text, plugged_disk
from vgpumgr.engine.reservation.domain_plan import pool_disk
from vgpumgr.model.domain import VolumePlan
from vgpumgr.model.errors import HostRefused

CASES = Cases[DiskBench]()
NAME = "profile-a"


@CASES.case()
def a_running_guest_sees_one_disk_more_until_it_is_off(bench: DiskBench) -> None:
    """The definition never names it, so the next start is without."""
    bench.make(*bench.two)
    vm, disk = bench.vm(), bench.pool.disk(16)
    size = 16 * MIB
    plan = VolumePlan(pool=disk.pool, name=NAME, capacity_bytes=size, format=disk.format)
    bench.host.storage.create(disk.pool, domainxml.volume(plan))
    facts = bench.ledger.host(vm.host).facts
    assert facts is not None
    seen = replace(pool_disk(facts, disk.pool, NAME, "vdz"), format=disk.format)
    text, domains = plugged_disk(seen), bench.host.domains
    for _ in range(2):
        domains.attach_disk(vm.domain_uuid, text)
    assert disk_of(disk_text(domains.live_xml("a"), "vdz"))[1] == seen.path
    assert domains.disk_bytes("a", "vdz") == size
    assert not disk_text(domains.xml("a"), "vdz")
    bench.stop()
    with pytest.raises(HostRefused, match="cannot attach a disk"):
        domains.attach_disk(vm.domain_uuid, text)
    bench.start()
    assert not disk_text(domains.live_xml("a"), "vdz")
    bench.host.storage.delete(disk.pool, NAME)
