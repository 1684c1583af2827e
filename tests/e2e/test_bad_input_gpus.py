"""Requests and layouts that cannot be: a clear error with the way out, and nothing is lost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.support import Cli, host_dumps, new_cli

NEW = {"kernel": "6.12.43", "libvirt": "11.3.0", "qemu": "10.0.2", "driver": "580.105.06"}
HOSTS: list[dict[str, Any]] = [
    {"name": "t4", "gpus": [{"board": "T4"}]},
    {"name": "a100", "gpus": [{"board": "A100-PCIE-80GB"}], "versions": NEW},
    {"name": "l40s", "gpus": [{"board": "L40S"}], "versions": NEW},
    {
        "name": "hgx",
        "memory": "2TiB",
        "gpus": [{"board": "H100-SXM5-80GB", "count": 8}],
        "fabric": "HGX-H100-8",
        "versions": NEW,
    },
]


@pytest.fixture
def cli() -> Iterator[Cli]:
    with new_cli() as found:
        found.sim_up(*HOSTS)
        yield found


def layout(cli: Cli, *rules: dict[str, Any], host: str) -> str:
    return cli.documents(
        {"kind": "Layout", "name": "cut", "hosts": [host], "gpus": list(rules)}, name="layout.yaml"
    )


def vm(cli: Cli, *gpus: dict[str, Any], name: str = "web", **fields: Any) -> str:
    document = {"name": name, "vcpus": 2, "memory": "2GiB", "gpus": list(gpus), **fields}
    return cli.documents(document, name=f"{name}.yaml")


def refused(cli: Cli, code: int, *command: str) -> str:
    """The command fails with this code, says why, and changes nothing; its error text."""
    before = host_dumps(cli)
    ran = cli.fails(code, *command)
    assert host_dumps(cli) == before
    return ran.err


def test_a_profile_of_another_board(cli: Cli) -> None:
    error = refused(cli, 5, "apply", "-f", vm(cli, {"profile": "A40-8Q"}))
    assert "T4" in error
    assert "does not offer A40-8Q" in error


def test_a_profile_that_only_a_layout_keeps_away(cli: Cli) -> None:
    error = refused(cli, 5, "apply", "-f", vm(cli, {"profile": "1g.10gb"}))
    assert "mig: true" in error
    assert "layout" in error


def test_a_mig_profile_without_room_names_the_instances_in_the_way(cli: Cli) -> None:
    cli.ok("layout", "apply", "-f", layout(cli, {"mig": True, "vfs": "max"}, host="a100"), "-y")
    cli.ok("apply", "-f", vm(cli, {"profile": "4g.40gb"}, name="big"))
    cli.ok("apply", "-f", vm(cli, {"profile": "2g.20gb"}, name="small"))
    error = refused(cli, 5, "apply", "-f", vm(cli, {"profile": "3g.40gb"}))
    assert "4g.40gb" in error
    assert "big" in error
    assert "small" in error


def test_a_time_sliced_type_on_a_mig_gpu(cli: Cli) -> None:
    cli.ok("layout", "apply", "-f", layout(cli, {"mig": True, "vfs": "max"}, host="a100"), "-y")
    error = refused(cli, 5, "apply", "-f", vm(cli, {"profile": "A100D-40C"}))
    assert "mig: false" in error


def test_more_vfs_than_the_board_has(cli: Cli) -> None:
    file = layout(cli, {"vfs": 64}, host="l40s")
    error = refused(cli, 4, "layout", "apply", "-f", file, "-y")
    assert "64" in error
    assert "32" in error


@pytest.mark.parametrize("rule", [{"mixed_size": True}, {"mig": True}, {"vfs": "max"}])
def test_a_part_that_the_board_does_not_have(cli: Cli, rule: dict[str, Any]) -> None:
    error = refused(cli, 4, "layout", "apply", "-f", layout(cli, rule, host="t4"), "-y")
    assert "T4" in error


def test_vgpus_that_do_not_mix_in_one_vm(cli: Cli) -> None:
    cli.ok(
        "layout", "apply", "-f", layout(cli, {"vfs": "max", "mixed_size": True}, host="l40s"), "-y"
    )
    file = vm(cli, {"profile": "L40S-8Q"}, {"profile": "L40S-8C"})
    error = refused(cli, 5, "apply", "-f", file)
    assert "series" in error


def test_a_partition_with_a_used_gpu(cli: Cli) -> None:
    whole = {"profile": "passthrough", "model": "H100-SXM5-80GB"}
    cli.ok("apply", "-f", vm(cli, whole, name="one"))
    error = refused(cli, 5, "apply", "-f", vm(cli, {**whole, "count": 8}, name="all"))
    assert "partition" in error
    assert "one" in error
    error = refused(cli, 5, "apply", "-f", vm(cli, {**whole, "count": 3}, name="three"))
    assert "partition" in error


def test_a_layout_that_would_kill_running_vms_names_them(cli: Cli) -> None:
    cli.ok("layout", "apply", "-f", layout(cli, {"mig": True, "vfs": "max"}, host="a100"), "-y")
    cli.ok("apply", "-f", vm(cli, {"profile": "1g.10gb"}, name="busy"))
    for rule in ({"mig": False}, {"vfs": 0}, {"instances": [], "vfs": 0}):
        error = refused(cli, 4, "layout", "apply", "-f", layout(cli, rule, host="a100"), "-y")
        assert "busy" in error


def test_a_layout_for_a_gpu_that_is_not_there(cli: Cli) -> None:
    file = layout(cli, {"devices": ["0000:99:00.0"], "vfs": "max"}, host="a100")
    error = refused(cli, 3, "layout", "apply", "-f", file, "-y")
    assert "0000:99:00.0" in error


def test_contradictions_in_a_file_are_found_before_anything_is_asked(cli: Cli) -> None:
    for rule in (
        {"mig": False, "instances": [{"profile": "1g.10gb"}]},
        {"mig": True, "mixed_size": True},
        {"model": "A100-PCIE-80GB", "mig": True, "instances": [{"profile": "1g.99gb"}]},
        {"vfs": -3},
        {"scheduler": "lottery"},
    ):
        refused(cli, 2, "layout", "plan", "-f", layout(cli, rule, host="a100"))
