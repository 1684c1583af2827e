"""Where VMs go when nobody chose a policy: what is left stays of use."""

from __future__ import annotations

import highspy
import pytest

from tests.e2e.support import host, new_cli, vm
from vgpumgr.placement.capacity_plan import plan_maker

pytestmark = pytest.mark.mainline


def test_small_vms_leave_a_whole_gpu_for_a_large_one() -> None:
    with new_cli() as cli:
        cli.sim_up(host("one", ("T4", 1)), host("two", ("T4", 1)), host("plain"))
        for name in ("a", "b"):
            cli.ok("apply", "-f", cli.documents(vm(name, "T4-4Q")))
        assert len({each["host"] for each in cli.items("vm", "list")}) == 1
        cli.ok("apply", "-f", cli.documents(vm("whole", "T4-16Q")))


def test_a_vm_without_a_gpu_leaves_hosts_with_gpus_alone() -> None:
    with new_cli() as cli:
        cli.sim_up(host("gpus", ("T4", 1)), host("plain"))
        cli.ok("apply", "-f", cli.documents(vm("licence-server")))
        assert [each["host"] for each in cli.items("vm", "list")] == ["plain"]


def test_a_part_by_size_takes_no_whole_gpu_of_many_times_the_size() -> None:
    with new_cli() as cli:
        cli.sim_up(host("hgx", ("H100-SXM5-80GB", 8)), host("vdi", ("A40", 1)))
        layout = {"kind": "Layout", "name": "vfs", "hosts": ["vdi"], "gpus": [{"vfs": "max"}]}
        cli.ok("layout", "apply", "-f", cli.documents(layout), "-y")
        asked = vm("any", gpus=[{"memory": "12GiB", "framework": "any"}])
        cli.ok("apply", "-f", cli.documents(asked))
        assert [each["profile"] for each in cli.items("allocation", "list")] == ["A40-12Q"]


def test_that_placement_lacks_its_plan_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VGPUMGR_MIX", "[{gpus: [{profile: T4-4Q}]}]")
    monkeypatch.setenv("VGPUMGR_POLICY", "capacity-first")
    with new_cli() as cli:
        cli.sim_up(host("one", ("T4", 1)))
        wanted = cli.documents(vm("a", "T4-4Q"))
        assert "without a plan" not in cli.ok("plan", "-f", wanted).out
        monkeypatch.setattr(plan_maker, "MOST_ARCS", 1)
        assert "without a plan" in cli.ok("plan", "-f", wanted).out


def test_no_clock_ends_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine gives the answers of an idle one: what it costs is counted."""
    options: dict[str, object] = {}

    class Highs(highspy.Highs):
        def setOptionValue(self, name, value):  # noqa: N802
            options[name] = value
            return super().setOptionValue(name, value)

    monkeypatch.setattr(highspy, "Highs", Highs)
    monkeypatch.setenv("VGPUMGR_MIX", "[{gpus: [{profile: T4-4Q}]}]")
    monkeypatch.setenv("VGPUMGR_POLICY", "capacity-first")
    with new_cli() as cli:
        cli.sim_up(host("one", ("T4", 1)))
        cli.ok("plan", "-f", cli.documents(vm("a", "T4-4Q")))
    assert options, "the plan was made"
    assert "time_limit" not in options
