"""The whole files that the pages of keys show are planned on a fleet that can hold them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.support import Cli, new_cli

FLEET = """
apiVersion: vgpumgr/v1
kind: Fleet
name: lab
hosts:
  - {name: t4, count: 3, gpus: [{board: T4, count: 4}], images: [debian-12.qcow2, cad@12.qcow2]}
  - name: h100
    count: 2
    gpus: [{board: H100-PCIE-80GB, count: 4}]
    cpus: 128
    memory: 2TiB
    hugepages_1gib: 1024
  - {name: a40, gpus: [{board: A40}]}
  - {name: a100, gpus: [{board: A100-PCIE-80GB, count: 2}]}
"""
LABELS = {"a40": "desktops", "a100": "training"}
HOSTS = ("t4-01", "t4-02", "t4-03", "h100-01", "h100-02", "a40", "a100")


def document(name: str) -> dict[str, Any]:
    """An enrolled host of the fleet, labelled for the layouts."""
    labels = {"use": LABELS[name]} if name in LABELS else {}
    return {"kind": "Host", "name": name, "address": f"sim://{name}", "labels": labels}


@pytest.fixture(scope="module")
def cli() -> Iterator[Cli]:
    with new_cli() as made:
        made.ok("sim", "up", "--no-enrol", "-f", made.file(FLEET))
        made.ok("host", "add", "-f", made.documents(*map(document, HOSTS)))
        yield made


@pytest.mark.parametrize(("file", "vms"), [("desktops.yaml", 40), ("training.yaml", 2)])
def test_the_vms_of_a_file_are_planned(cli: Cli, file: str, vms: int) -> None:
    plan = cli.ok("plan", "-f", f"examples/{file}", "-o", "json").json
    assert plan["changes"] == vms
    assert plan["unplaced"] == []


def test_the_pool_is_planned(cli: Cli) -> None:
    plan = cli.ok("plan", "-f", "examples/pool.yaml", "-o", "json").json
    assert plan["changes"] == 1


def test_the_layouts_are_planned(cli: Cli) -> None:
    plan = cli.ok("layout", "plan", "-f", "examples/layouts.yaml", "-o", "json").json
    assert plan["changes"] > 0
