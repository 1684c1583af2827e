"""The demo, as `make demo` types it, and back again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.support import Cli, host_dumps, names, new_cli

pytestmark = pytest.mark.mainline

VMS = "examples/demo/vms.yaml"
LAYOUT = "examples/demo/layout.yaml"
COUNT = 94


@pytest.fixture
def cli() -> Iterator[Cli]:
    with new_cli() as found:
        yield found


def test_the_demo_discovers_places_runs_explains_and_takes_all_back(cli: Cli) -> None:
    up = cli.ok("sim", "up", "-f", "examples/demo/fleet.yaml")
    assert "discovered 12 hosts with 42 GPUs" in up.err
    cli.ok("host", "set", "--all", "--layout", "auto")
    cli.fails(10, "layout", "assert", "-f", LAYOUT)
    cli.ok("layout", "apply", "-f", LAYOUT, "-y")
    cli.ok("layout", "assert")
    assert "4 GPUs are as declared" in cli.ok("layout", "apply", "-f", LAYOUT, "-y").out
    before = host_dumps(cli)

    assert cli.fails(10, "plan", "-f", VMS, "--detailed-exitcode").out.count("create") == COUNT
    assert cli.ok("plan", "-f", VMS).out == cli.fails(10, "diff", "-f", VMS).out
    assert cli.items("vm", "list") == []

    applied = cli.ok("apply", "-f", VMS, "-o", "json").json
    assert applied["kind"] == "Apply"
    assert applied["changes"] == len(applied["vms"]) == COUNT
    assert {vm["state"] for vm in applied["vms"]} == {"done"}

    again = cli.ok("apply", "-f", VMS)
    assert again.out == f"nothing to change: {COUNT} VMs converged\n"
    assert cli.ok("plan", "-f", VMS, "--detailed-exitcode").out == again.out
    assert cli.ok("diff", "-f", VMS).out == again.out
    _shown_as_made(cli)

    explained = cli.fails(5, "explain", "-f", "examples/demo/too-big.yaml", "-o", "json").json
    (giant,) = explained["items"]
    assert giant["host"] is None
    assert {reason["host"] for reason in giant["reasons"]} == {item["host"] for item in before}
    assert any("partitions of 1, 2, 4, 8 GPUs" in reason["text"] for reason in giant["reasons"])

    cli.ok("delete", "-f", VMS, "--force", "-y")
    assert cli.items("vm", "list") == []
    assert cli.items("allocation", "list") == []
    assert all(gpu["units_used"] == 0 for gpu in cli.items("gpu", "list"))
    assert "foreign" not in cli.ok("map").out
    # GPUs that were partitioned by themselves stay so; all else is as it was.
    after, was = _untouched(host_dumps(cli)), _untouched(before)
    assert after == was and len(was) == 7
    assert "nothing to delete" in cli.ok("delete", "-f", VMS, "--force", "-y").err


def _untouched(dumps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Hosts on which every layout was declared, or none was needed."""
    alone = ("vdi-", "hgx-", "amd-", "intel-")
    return [each for each in dumps if each["host"].startswith(alone)]


def _shown_as_made(cli: Cli) -> None:
    vms = cli.items("vm", "list")
    assert len(vms) == COUNT
    assert {vm["power"] for vm in vms} == {"running"}
    assert {vm["owner"] for vm in vms} == {"vgpumgr"}
    allocations = cli.items("allocation", "list")
    assert len(allocations) == COUNT - 1 + 3  # one VM has no GPU, one has four
    assert {each["state"] for each in allocations} == {"active"}
    assert {each["framework"] for each in allocations} == {
        "mdev",
        "vfio-vf",
        "pci-vf",
        "passthrough",
    }
    engineers = {each["framework"] for each in allocations if each["vm"].startswith("engineer")}
    assert engineers == {"mdev", "vfio-vf"}
    whole = [each for each in allocations if each["profile"] == "passthrough"]
    assert sorted(each["vm"] for each in whole) == ["any-01", "any-02", *["training"] * 4]
    operations = {(each["kind"], each["state"]) for each in cli.items("operation", "list")}
    assert operations == {(kind, "done") for kind in ("host add", "layout apply", "apply")}
    assert names(cli.items("host", "list")) == sorted(names(cli.items("host", "list")))
    for engineer in ("engineer-01", "engineer-02"):
        display = cli.ok("vm", "xml", engineer).out
        assert display.count('display="on"') == display.count('ramfb="on"') == 1
    cli.ok("layout", "assert")
