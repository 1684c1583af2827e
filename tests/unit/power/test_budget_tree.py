"""The tree of budgets: whose host is whose, and circles and strangers as parents."""

from __future__ import annotations

import pytest

from vgpumgr.model.errors import Conflict, NotFound
from vgpumgr.model.host import HostRecord
from vgpumgr.model.power import PowerBudget
from vgpumgr.power.budget_tree import require_tree, tree_of


def host(name: str, rack: str) -> HostRecord:
    return HostRecord(name=name, address=f"sim://{name}", labels={"rack": rack})


SITE = PowerBudget(name="site", watts=1000, host_watts=50)
ONE = PowerBudget(name="one", watts=400, parent="site", host_labels={"rack": "1"})
TWO = PowerBudget(name="two", watts=500, parent="site", hosts=("h3",), host_watts=70)
HOSTS = [host("h1", "1"), host("h2", "1"), host("h3", "2"), host("h4", "3")]


def test_a_budget_holds_for_its_hosts_and_those_of_its_children() -> None:
    tree = tree_of([SITE, ONE, TWO], HOSTS)
    assert tree.hosts == {"site": {"h1", "h2", "h3"}, "one": {"h1", "h2"}, "two": {"h3"}}
    assert [each.name for each in tree.of_host["h1"]] == ["one", "site"]
    assert "h4" not in tree.of_host


def test_leaves_come_before_their_parents() -> None:
    order = [each.name for each in tree_of([SITE, ONE, TWO], HOSTS).budgets]
    assert order.index("site") == 2


def test_the_nearest_budget_says_what_a_host_draws_without_gpus() -> None:
    tree = tree_of([SITE, ONE, TWO], HOSTS)
    assert [tree.host_watts(name) for name in ("h1", "h3", "h4")] == [50, 70, 0]


def test_a_host_that_is_gone_is_in_none() -> None:
    assert tree_of([TWO], [host("h1", "1")]).hosts == {"two": frozenset()}


def test_parents_must_be_there_and_never_below() -> None:
    require_tree([SITE, ONE, TWO])
    with pytest.raises(NotFound, match="names site as its parent"):
        require_tree([ONE])
    loop = PowerBudget(name="site", watts=1, parent="one")
    with pytest.raises(Conflict, match="above itself"):
        require_tree([loop, ONE])
