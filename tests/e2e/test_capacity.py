"""What is left, what of it is of no use and why, and how long it lasts."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from tests.e2e.support import Cli, host, new_cli, vm

pytestmark = pytest.mark.mainline

DAY_S = 86_400


@pytest.fixture
def cli() -> Iterator[Cli]:
    with new_cli() as found:
        yield found


def settings(cli: Cli, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """The user's own settings file."""
    folder = cli.folder / "config" / "vgpumgr"
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text(text)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder.parent))


def fragmentation(cli: Cli) -> dict[str, Any]:
    found: dict[str, Any] = cli.ok("capacity", "--stranded", "-o", "json").json
    return found


def test_memory_of_no_use_is_named_with_the_rule_that_keeps_it(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings(cli, monkeypatch, "mix: [{gpus: [{profile: T4-4Q}], vcpus: 2, memory: 1GiB}]\n")
    cli.sim_up(host("one", ("T4", 2), cpus=4))
    assert fragmentation(cli)["stranded"] == []
    cli.ok("apply", "-f", cli.documents(vm("odd", "T4-1Q"), vm("busy", "T4-4Q", vcpus=8)))
    gauge = fragmentation(cli)
    assert gauge["mix"] == "the declared mix"
    (stuck,) = gauge["stranded"]
    assert (stuck["reason"]["code"], stuck["free_mib"]) == ("same-size", 15 * 1024)
    assert gauge["unusable_mib"] == 15 * 1024
    ran = cli.ok("capacity")
    assert "15 GiB of 27 GiB free GPU memory are unusable for the declared mix" in ran.err
    cli.ok("apply", "-f", cli.documents(vm("more", vcpus=6), name="more.yaml"))
    assert "vCPUs free" in cli.ok("capacity", "--stranded").out
    assert [each["reason"]["code"] for each in fragmentation(cli)["stranded"]] == ["vcpus", "vcpus"]


def test_room_lasts_as_long_as_the_past_says(cli: Cli) -> None:
    cli.sim_up(host("one", ("T4", 4), cpus=64))
    cli.ok("apply", "-f", cli.documents(vm("desk", "T4-2Q", replicas=20)))
    with closing(sqlite3.connect(cli.state / "ledger.sqlite")) as ledger:
        ledger.execute(
            "UPDATE allocation SET created_at = created_at - ? * (CAST(substr(vm, 6) AS INTEGER))",
            (DAY_S,),
        )
        ledger.commit()
    (room,) = cli.items("capacity", "T4-2Q", "--vcpus", "1", "--memory", "1GiB")
    assert room["fits"] == 12
    # One of 32 a day; on the first of the days, which is not whole, nothing was counted.
    assert room["lasting"]["per_day"] == pytest.approx(0.125, rel=0.1)
    assert 12 <= room["lasting"]["days_90"] + 1 <= room["lasting"]["days_50"] <= 14
    ran = cli.ok("capacity", "T4-2Q")
    assert " days (90 %: " in ran.out
    assert room["history_days"] == 20


def test_a_mix_that_is_wrong_is_refused_with_its_line(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "policy: capacity-first\nmix:\n  - {gpus: [{profile: T4-4Q}], weigth: 2}\n"
    settings(cli, monkeypatch, text)
    cli.sim_up(host("one", ("T4", 1)))
    wanted = cli.documents(vm("a", "T4-4Q"))
    refused = cli.fails(2, "apply", "-f", wanted, "-o", "json").error
    assert "config.yaml:3:" in refused["message"]
    assert "did you mean weight?" in refused["message"]
    assert cli.items("vm", "list") == []  # what needs no mix goes on


def test_by_least_fragmentation_a_vm_goes_where_the_mix_loses_least(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.sim_up(host("one", ("T4", 1)), host("two", ("A40", 1)))
    cut = {"kind": "Layout", "name": "cut", "hosts": ["two"], "gpus": [{"vfs": "max"}]}
    cli.ok("layout", "apply", "-f", cli.documents(cut, name="cut.yaml"), "-y")
    small = cli.documents(vm("small", gpus=[{"memory": "4GiB"}]))
    monkeypatch.setenv("VGPUMGR_POLICY", "capacity-first")
    for expected, elsewhere in (("T4-4Q", "two"), ("A40-4Q", "one")):
        monkeypatch.setenv("VGPUMGR_MIX", f"[{{gpus: [{{profile: {expected}}}], memory: 1GiB}}]")
        (explained,) = cli.ok("explain", "-f", small, "-o", "json").json["items"]
        assert explained["host"] == elsewhere
        planned = cli.ok("plan", "-f", small, "-o", "json").json
        assert [action["host"] for action in planned["actions"]] == [elsewhere]


def test_what_only_a_layout_keeps_from_being_made_is_told_with_its_number(cli: Cli) -> None:
    """An A40 without VFs makes nothing yet; with them 48 GiB fit once, however many VFs it has."""
    cli.sim_up(host("one", ("A40", 1), cpus=128))
    wanted = {"A40-48Q": 1, "A40-8Q": 6, "A40-1Q": 31}
    types = cli.ok("gpu", "show", "one/0000:41:00.0").out
    assert "A40-48Q: after layout vfs: max" in types
    rooms = cli.items("capacity", *wanted, "--vcpus", "4", "--memory", "2GiB")
    found = {each["name"]: (each["fits"], each["fits_after"], each["layout"]) for each in rooms}
    assert found == {name: (0, count, "vfs: max") for name, count in wanted.items()}
    assert "0 more; 6 with layout vfs: max" in cli.ok("capacity", "A40-8Q").out
    layout = {"kind": "Layout", "name": "cut", "hosts": ["one"]}
    layout["gpus"] = [{"model": "A40", "vfs": "max"}]
    cli.ok("layout", "apply", "-f", cli.documents(layout), "-y")
    rooms = cli.items("capacity", *wanted, "--vcpus", "4", "--memory", "2GiB")
    assert {each["name"]: (each["fits"], each["fits_after"]) for each in rooms} == {
        name: (count, 0) for name, count in wanted.items()
    }
    lines = cli.ok("gpu", "show", "one/0000:41:00.0").out.splitlines()
    assert {
        "Type:         A40-48Q (nvidia-566): 1 more",
        "Type:         A40-8Q (nvidia-562): 6 more",
    } <= set(lines)
    cli.ok("apply", "-f", cli.documents(vm("desk", "A40-8Q")))
    lines = cli.ok("gpu", "show", "one/0000:41:00.0").out.splitlines()
    assert {
        "Type:         A40-48Q (nvidia-566): 0 more",
        "Type:         A40-8Q (nvidia-562): 5 more",
    } <= set(lines)
