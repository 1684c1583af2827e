"""MIG profiles by the names that older drivers and NVIDIA's older documents have for them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import yaml

from tests.e2e.support import Cli, new_cli
from tests.e2e.support import host as sim_host
from tests.e2e.support import vm as vm_document
from tests.simworld import NEW

VERSIONS = {"kernel": NEW.kernel, "libvirt": NEW.libvirt, "qemu": NEW.qemu}


@pytest.fixture
def cli() -> Iterator[Cli]:
    with new_cli() as user:
        user.sim_up(sim_host("h1", ("GB200", 1), versions=VERSIONS))
        yield user


def places(cli: Cli) -> set[tuple[str, int]]:
    [gpu] = cli.items("gpu", "list")
    return {(each["profile"], each["start"]) for each in gpu["mig"]["instances"]}


def test_a_layout_and_vms_go_by_them(cli: Cli) -> None:
    layout = {
        "kind": "Layout", "name": "cut", "hosts": ["h1"],
        "gpus": [{
            "model": "GB200", "mig": True, "vfs": "max",
            "instances": [{"profile": "3g.95gb", "start": 4}],
        }],
    }  # fmt: skip
    path = cli.documents(layout, name="layout.yaml")
    cli.ok("layout", "apply", "-f", path, "-y")
    assert places(cli) == {("3g.93gb", 4)}
    cli.ok("layout", "assert", "-f", path)
    cli.ok("host", "probe", "h1")
    cli.ok("apply", "-f", cli.documents(vm_document("a", "3g.95gb"), vm_document("b", "1g.24gb")))
    assert {each["name"]: each["state"] for each in cli.items("vm", "list")} == {
        "a": "active",
        "b": "active",
    }
    assert places(cli) == {("3g.93gb", 4), ("1g.23gb", 0)}
    assert cli.ok("layout", "plan").code == 0


def test_another_tools_older_file_is_read(cli: Cli) -> None:
    entry = {
        "device-filter": "0x294110DE", "devices": "all",
        "mig-enabled": True, "mig-devices": {"1c.4g.95gb": 2, "1g.24gb": 1},
    }  # fmt: skip
    theirs = cli.file(yaml.safe_dump({"version": "v1", "mig-configs": {"old": [entry]}}), "t.yaml")
    ours = cli.file(cli.ok("layout", "import", theirs, "--host", "h1").out, "ours.yaml")
    cli.ok("layout", "apply", "-f", ours, "-y")
    assert {profile for profile, _ in places(cli)} == {"4g.93gb", "1g.23gb"}
    cli.ok("layout", "assert", "-f", ours)
