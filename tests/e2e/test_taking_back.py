"""What docs/taking-back.md says takes everything away does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.support import Cli, host, host_dumps, new_cli, vm

pytestmark = pytest.mark.mainline

PAGE = (Path(__file__).parents[2] / "docs" / "taking-back.md").read_text()
CUT = {"kind": "Layout", "name": "cut", "hosts": ["gpu1"]}
RULES = [{"model": "A100-PCIE-80GB", "mig": True, "vfs": "max"}, {"model": "A40", "vfs": "max"}]


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cli]:
    with new_cli() as found:
        monkeypatch.chdir(found.folder)
        fleet = {"kind": "Fleet", "name": "tests", "hosts": [gpu1()]}
        found.ok("sim", "up", "--no-enrol", "-f", found.documents(fleet, name="fleet.yaml"))
        yield found


def gpu1() -> dict[str, object]:
    return host("gpu1", ("A100-PCIE-80GB", 1), ("A40", 1), cpus=64, memory="256GiB")


def block(language: str) -> str:
    [text] = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return str(text)


def used(cli: Cli) -> None:
    """A host in full use: partitioned, with an image, and VMs."""
    cli.ok("host", "add", "gpu1", "--address", "sim://gpu1")
    cli.ok("layout", "apply", "-f", cli.documents({**CUT, "gpus": RULES}, name="cut.yaml"), "-y")
    (cli.folder / "cad.img").write_bytes(bytes(1 << 20))
    cli.ok("image", "import", "cad.img", "--name", "cad", "--format", "raw")
    disk = {"mode": "overlay", "image": "cad@1"}
    vms = vm("slice", "1g.10gb", disks=[disk]), vm("desk", "A40-8Q", disks=[disk], replicas=2)
    cli.ok("apply", "-f", cli.documents(*vms, name="desktops.yaml"))


def _known(dumps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without what the simulator notes by itself: a MIG mode that is off, and its look at KVM."""
    kept = [
        {k: t for k, t in d["kept"].items() if "mig" not in k and "kvm" not in k} for d in dumps
    ]
    return [{**dump, "kept": each} for dump, each in zip(dumps, kept, strict=True)]


def test_what_the_page_types_leaves_the_host_as_it_was_before_it_was_added(cli: Cli) -> None:
    before = host_dumps(cli)
    used(cli)
    assert host_dumps(cli) != before
    cli.file(block("yaml"), "bare.yaml")
    commands = [line.partition("#")[0].split() for line in block("sh").splitlines()]
    assert len(commands) >= 4
    for program, *words in commands:
        assert program == "vgpumgr"
        cli.ok(*words)
    [was], [now] = _known(before), _known(host_dumps(cli))
    assert {key for key in was if was[key] != now[key]} == set()
    assert cli.items("host", "list") == []


def test_a_host_that_is_removed_says_what_stays_on_it(cli: Cli) -> None:
    used(cli)
    cli.ok("vm", "delete", "slice", "desk-01", "desk-02", "--force", "-y")
    said = cli.ok("host", "remove", "gpu1", "-y").err
    assert "on gpu1 A100-PCIE-80GB 0000:41:00.0 stays partitioned: MIG" in said
    assert "stays partitioned: 32 VFs" in said
    assert "on gpu1 image cad@1 stays: volume cad@1-" in said
    assert "docs/taking-back.md" in said
