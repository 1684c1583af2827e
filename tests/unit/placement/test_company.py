"""The VMs on a host by their labels: what was once asked for is counted on."""

from __future__ import annotations

from vgpumgr.placement.resources.host_state import AffinityCounts

DB = (("app", "db"),)
DB_OF_A = (("app", "db"), ("tenant", "a"))


def test_counts_vms_that_have_all_of_the_labels() -> None:
    company = AffinityCounts([{"app": "db", "tenant": "a"}, {"app": "db"}, {"app": "web"}, {}])
    assert company.vms == 4
    assert company.matching(DB) == 2
    assert company.matching(DB_OF_A) == 1
    assert company.matching(()) == 0


def test_keeps_up_with_vms_that_come_and_go() -> None:
    company = AffinityCounts([{"app": "db"}])
    assert company.matching(DB) == 1
    company.change({"app": "db", "tenant": "a"}, 1)
    company.change({}, 1)
    assert (company.vms, company.matching(DB), company.matching(DB_OF_A)) == (3, 2, 1)
    company.change({"app": "db"}, -1)
    assert (company.vms, company.matching(DB), company.matching(DB_OF_A)) == (2, 1, 1)
