"""An order that does not fit one VM after the other, and does together."""

from __future__ import annotations

import pytest

from tests.e2e.support import Cli, host, new_cli, vm

# On 24 and 32 vCPUs (four for each CPU): 32 = 12 + 20, and 24 = 16 + 8; no other way.
ORDER = {"a": 12, "b": 20, "c": 16, "d": 8}


def order(cli: Cli) -> str:
    return cli.documents(*(vm(name, "T4-16Q", vcpus=vcpus) for name, vcpus in ORDER.items()))


def test_vms_of_an_order_are_decided_together_where_gpus_are_not_to_be_spread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with new_cli() as cli:
        cli.sim_up(host("h0", ("T4", 2), cpus=6), host("h1", ("T4", 2), cpus=8))
        wanted = order(cli)
        monkeypatch.setenv("VGPUMGR_POLICY", "breadth-first")
        assert "1 cannot be placed" in cli.fails(5, "plan", "-f", wanted).out
        monkeypatch.delenv("VGPUMGR_POLICY")
        assert "0 cannot be placed" in cli.ok("plan", "-f", wanted).out
        cli.ok("apply", "-f", wanted)
        on = {each["name"]: each["host"] for each in cli.items("vm", "list")}
        assert on == {"a": "h1", "b": "h1", "c": "h0", "d": "h0"}
