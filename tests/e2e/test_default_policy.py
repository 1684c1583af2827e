"""Where VMs go when nobody chose a policy: what is left stays of use."""

from __future__ import annotations

import pytest

from tests.e2e.support import host, new_cli, vm

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
