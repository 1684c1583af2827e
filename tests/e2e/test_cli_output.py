"""What the reading commands print of a small fleet, in every format. Nothing here changes it."""

from __future__ import annotations

import csv
import io
import json
import re
import time
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest
import yaml

from tests.e2e.support import Cli, Ran, host, names, new_cli, unix_times, vm

pytestmark = pytest.mark.mainline

LISTS = ("host list", "gpu list", "vm list", "allocation list", "operation list", "capacity")
A100 = "A100-PCIE-80GB"
SHAPES = {
    "host list": ("HostList", {"name", "state", "address", "gpu_count", "memory_mib"}),
    "gpu list": ("GPUList", {"name", "host", "device", "model", "units", "units_used"}),
    "vm list": ("VMList", {"name", "id", "host", "state", "power", "memory_mib", "gpus"}),
    "allocation list": ("AllocationList", {"name", "vm", "gpu", "profile", "slots", "state"}),
    "operation list": ("OperationList", {"name", "kind", "state", "started_at", "epoch"}),
    "capacity": ("CapacityList", {"name", "frameworks", "fits", "in_use", "verified"}),
}


@pytest.fixture(scope="module")
def cli() -> Iterator[Cli]:
    """One host with two T4s and an A100, another with one T4; five VMs, one of them off."""
    with new_cli() as found:
        found.sim_up(host("alpha", ("T4", 2), (A100, 1)), host("beta", ("T4", 1)))
        found.ok(
            "apply",
            "-f",
            found.documents(
                vm("desk", "T4-4Q", replicas=2, labels={"team": "red", "floor": "2"}),
                vm("show", "T4-8Q", display=True, labels={"team": "blue"}),
                vm(
                    "train",
                    "passthrough",
                    gpus=[{"profile": "passthrough", "model": "A100-PCIE-80GB"}],
                ),
                vm("plain", disks=[{"size": "10GiB"}], networks=[{"bridge": "br0"}]),
            ),
        )
        found.ok("vm", "stop", "plain", "--force")
        yield found


def shown(cli: Cli, command: str, form: str) -> Ran:
    ran = cli.ok(*command.split(), "-o", form)
    assert not ran.err
    return ran


@pytest.mark.parametrize("command", LISTS)
def test_a_list_is_json_of_the_documented_shape(cli: Cli, command: str) -> None:
    listed = shown(cli, command, "json").json
    kind, keys = SHAPES[command]
    assert set(listed) == {"apiVersion", "kind", "items"}
    assert (listed["apiVersion"], listed["kind"]) == ("vgpumgr/v1", kind)
    assert listed["items"]
    assert all(keys <= set(item) for item in listed["items"])


@pytest.mark.parametrize("command", LISTS)
def test_yaml_says_the_same_as_json(cli: Cli, command: str) -> None:
    as_yaml = yaml.safe_load(shown(cli, command, "yaml").out)
    assert _without_ages(as_yaml) == _without_ages(shown(cli, command, "json").json)


def _without_ages(listed: dict[str, Any]) -> str:
    return re.sub(r'"seen_s": [0-9.]+', "", json.dumps(listed, sort_keys=True))


@pytest.mark.parametrize("command", LISTS)
def test_names_are_one_a_line(cli: Cli, command: str) -> None:
    assert shown(cli, command, "name").out.split("\n")[:-1] == names(cli.items(*command.split()))


@pytest.mark.parametrize("command", LISTS)
def test_csv_has_a_head_and_a_row_for_each_item(cli: Cli, command: str) -> None:
    rows = list(csv.reader(io.StringIO(shown(cli, command, "csv").out)))
    assert len(rows) == 1 + len(cli.items(*command.split()))
    assert len({len(row) for row in rows}) == 1
    assert rows[0] == [title.lower() for title in rows[0]]


@pytest.mark.parametrize("command", LISTS)
def test_wide_adds_columns_to_the_table(cli: Cli, command: str) -> None:
    narrow = shown(cli, command, "table").out.splitlines()
    wide = shown(cli, command, "wide").out.splitlines()
    assert len(narrow) == len(wide) == 1 + len(cli.items(*command.split()))
    assert len(wide[0].split()) > len(narrow[0].split())
    assert all(line == line.rstrip() for line in [*narrow, *wide])


@pytest.mark.parametrize(
    ("command", "columns"),
    [
        ("host list", "name,gpus"),
        ("gpu list", "DEVICE,model"),
        ("vm list", "power,name"),
        ("allocation list", "vm,profile"),
        ("operation list", "kind"),
        ("capacity", "fits,profile"),
    ],
)
def test_columns_are_chosen_by_title_and_in_that_order(
    cli: Cli, command: str, columns: str
) -> None:
    table = cli.ok(*command.split(), "--columns", columns).out.splitlines()
    assert table[0].split() == columns.upper().split(",")
    rows = list(
        csv.reader(io.StringIO(cli.ok(*command.split(), "-o", "csv", "--columns", columns).out))
    )
    assert rows[0] == columns.lower().split(",")


def test_what_show_prints_is_an_item_of_the_list(cli: Cli) -> None:
    for noun, name in (("vm", "desk-01"), ("host", "alpha"), ("gpu", _a_gpu(cli)["name"])):
        item = cli.ok(noun, "show", name, "-o", "json").json
        listed = next(each for each in cli.items(noun, "list") if each["name"] == name)
        head = {"apiVersion": item.pop("apiVersion"), "kind": item.pop("kind")}
        for each in (item, listed):
            assert each.pop("seen_s", 0) >= 0  # time goes on between two commands
            # What a GPU measures is read for one GPU or VM alone.
            for part in (each, *(each.get("gpus", ()) if noun == "vm" else ())):
                part.pop("now", None)
                part.pop("hour", None)
        assert item == listed
        assert head["kind"].lower() == noun


def _a_gpu(cli: Cli) -> dict[str, Any]:
    return next(gpu for gpu in cli.items("gpu", "list") if gpu["units_used"] == 8)


def test_show_is_readable(cli: Cli) -> None:
    text = cli.ok("vm", "show", "show").out
    assert re.search(r"^Power: +running \(seen \d+s ago\)$", text, re.MULTILINE)
    assert re.search(r"^GPU: +T4-8Q \(mdev\) \S+ on 0000:", text, re.MULTILINE)
    assert re.search(r"^Labels: +team=blue$", text, re.MULTILINE)
    assert re.search(
        r"^GPUs: +3 \(A100-PCIE-80GB, T4\)$", cli.ok("host", "show", "alpha").out, re.M
    )
    gpu = cli.ok("gpu", "show", _a_gpu(cli)["name"]).out
    assert re.search(r"^Type: +T4-\S+ \(nvidia-\d+\): \d+ more$", gpu, re.MULTILINE)


def test_a_gpu_is_found_by_a_prefix_and_by_host_and_device(cli: Cli) -> None:
    gpu = _a_gpu(cli)
    for name in (gpu["name"][:12], f"{gpu['host']}/{gpu['device']}"):
        assert cli.ok("gpu", "show", name, "-o", "name").out.strip() == gpu["name"]
    assert "several GPUs match" in cli.fails(3, "gpu", "show", "").err


def test_the_power_of_a_stopped_vm_is_shown(cli: Cli) -> None:
    power = {item["name"]: item["power"] for item in cli.items("vm", "list")}
    assert power.pop("plain") == "shutoff"
    assert set(power.values()) == {"running"}


def test_a_selector_keeps_what_has_every_label(cli: Cli) -> None:
    assert names(cli.items("vm", "list", "-l", "team=red")) == ["desk-01", "desk-02"]
    assert names(cli.items("vm", "list", "-l", "team=red", "-l", "floor=2")) == [
        "desk-01",
        "desk-02",
    ]
    assert cli.items("vm", "list", "-l", "team=red", "-l", "floor=3") == []
    assert cli.items("vm", "list", "-l", "team=red", "-l", "team=blue") == []
    assert cli.items("host", "list", "-l", "rack=1") == []


def test_gpus_of_one_host_can_be_listed(cli: Cli) -> None:
    assert {gpu["host"] for gpu in cli.items("gpu", "list", "--host", "beta")} == {"beta"}


def test_the_map_draws_every_gpu_in_plain_text(cli: Cli) -> None:
    drawn = cli.ok("map").out
    assert "\x1b" not in drawn
    assert re.search(r"^alpha  \d+ vCPUs, \d+ GiB free, seen \d+s ago$", drawn, re.MULTILINE)
    bars = re.findall(r"^  (\S+)  (\S+) +\[([A-Z#.]+)\] +(\d+)/(\d+) *(.*)$", drawn, re.MULTILINE)
    assert len(bars) == 4
    contents = {bar[5] for bar in bars}
    assert {"whole → train", "T4-8Q"} <= contents
    for _, _, bar, used, units, _ in bars:
        assert round(len(bar.replace(".", "")) * int(units) / len(bar)) == int(used)


def test_the_map_is_coloured_at_a_terminal_and_says_the_same(cli: Cli) -> None:
    with (
        mock.patch("click._compat.should_strip_ansi", return_value=False),
        mock.patch("click.utils.should_strip_ansi", return_value=False),
    ):
        coloured = cli.ok("map").out
    assert "\x1b[32mA\x1b[0m" in coloured
    plain = re.sub(r"\x1b\[[0-9;]*m", "", coloured)
    assert re.sub(r"\d+s ago", "", plain) == re.sub(r"\d+s ago", "", cli.ok("map").out)


def test_the_map_as_json_adds_up(cli: Cli) -> None:
    for each in cli.ok("map", "-o", "json").json["items"]:
        for gpu in each["gpus"]:
            taken = sum(usage["units"] for usage in gpu["usages"])
            assert taken + gpu["free"] == gpu["units"]


def test_operations_show_their_vms_and_steps(cli: Cli) -> None:
    stop, apply = (e for e in cli.items("operation", "list") if e["kind"] != "host add")
    assert (stop["kind"], apply["kind"]) == ("vm stop", "apply")
    item = cli.ok("operation", "show", apply["name"], "-o", "json").json
    assert {task["vm"] for task in item["tasks"]} == {
        "desk-01",
        "desk-02",
        "show",
        "train",
        "plain",
    }
    assert {step["state"] for task in item["tasks"] for step in task["steps"]} == {"done"}
    text = cli.ok("operation", "show", apply["name"][:8]).out
    assert re.search(r"^  train +alpha +create +done +(\d+)/\1 +-$", text, re.MULTILINE)
    assert cli.items("operation", "list", "--open") == []


def test_capacity_can_be_asked_for_one_profile_and_shape(cli: Cli) -> None:
    (room,) = cli.items("capacity", "T4-4Q")
    assert (room["in_use"], room["frameworks"]) == (2, ["mdev"])
    assert cli.items("capacity", "T4-4Q", "--memory", "60GiB")[0]["fits"] < room["fits"]
    failed = cli.fails(2, "capacity", "H100-80C", "-o", "json")
    assert failed.error["code"] == "usage.profile"


def test_without_released_allocations_the_long_list_is_the_short_one(cli: Cli) -> None:
    assert len(cli.items("allocation", "list", "--released")) >= len(
        cli.items("allocation", "list")
    )


def test_the_status_of_the_simulation_is_one_object(cli: Cli) -> None:
    status = cli.ok("sim", "status", "-o", "json").json
    assert status["hosts"] == ["alpha", "beta"]
    assert status["running_domains"] == 4


def test_a_dry_run_prints_the_plan_and_changes_nothing(cli: Cli) -> None:
    before = cli.items("operation", "list")
    plan = cli.ok("apply", "--dry-run", "-f", cli.documents(vm("new", "T4-4Q")), "-o", "json").json
    assert (plan["kind"], plan["changes"], plan["unplaced"]) == ("Plan", 1, [])
    assert plan["actions"][0]["kind"] == "create"
    assert (
        cli.ok("vm", "create", "new", "--profile", "T4-4Q", "--dry-run", "-o", "json").json[
            "changes"
        ]
        == 1
    )
    assert cli.items("operation", "list") == before


def test_a_plan_that_does_not_fit_exits_5_and_says_why(cli: Cli) -> None:
    too_much = cli.documents(vm("big", gpus=[{"profile": "T4-4Q", "count": 9}]))
    plan = cli.fails(5, "plan", "-f", too_much, "-o", "json").json
    assert (plan["changes"], plan["unplaced"][0]["vm"]) == (0, "big")
    assert plan["unplaced"][0]["reasons"]
    assert cli.fails(10, "diff", "-f", too_much).out
    assert cli.fails(5, "apply", "--dry-run", "-f", too_much).out


def test_explain_says_where_a_request_would_go(cli: Cli) -> None:
    given = cli.documents(vm("one", "T4-8Q"), vm("two", "A100-10C"))
    text = cli("explain", "-f", given)
    assert re.search(r"^one: fits: would go to ", text.out, re.MULTILINE)
    only = cli.ok("explain", "-f", given, "--vm", "one", "-o", "json").json
    assert [item["vm"] for item in only["items"]] == ["one"]
    assert "names no VM three" in cli.fails(3, "explain", "-f", given, "--vm", "three").err


@pytest.mark.parametrize(
    "command",
    [*LISTS, "audit list", "map", "vm show desk-01", "host show alpha", "layout show"],
)
def test_times_are_text_in_utc(cli: Cli, command: str) -> None:
    text = shown(cli, command, "json").out
    assert not list(unix_times(json.loads(text), time.time()))
    for at in re.findall(r'"(?:\w+_)?at": ([^n].*?),?\n', text):
        assert re.fullmatch(r'"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"', at)


def test_the_trail_is_cut_by_who_and_when_and_says_where_it_stops(cli: Cli) -> None:
    everything = cli.items("audit", "list", "--limit", "0")
    by = everything[0]["by"]
    assert names(cli.items("audit", "list", "--limit", "0", "--by", by)) == names(everything)
    assert cli.items("audit", "list", "--by", "nobody-of-that-name") == []
    assert names(cli.items("audit", "list", "--limit", "0", "--since", "1d")) == names(everything)
    assert cli.items("audit", "list", "--since", "2100-01-01T00:00:00Z") == []
    cut = cli.ok("audit", "list", "--limit", "3")
    assert len(cut.rows) == 3
    assert "only the newest 3 are shown: --limit 0 for all" in cut.err
    listed = cli.ok("audit", "list", "--limit", "3", "-o", "json").json
    assert (listed["more"], len(listed["items"])) == (True, 3)
    assert "not a time" in cli.fails(2, "audit", "list", "--since", "soon").err


def test_operations_say_who_began_them_and_stop_at_a_limit(cli: Cli) -> None:
    table = cli.ok("operation", "list")
    assert "WHO" in table.out.splitlines()[0].split()
    assert cli.items("operation", "list")[0]["by"] in table.out
    cut = cli.ok("operation", "list", "--limit", "1")
    assert len(cut.rows) == 1
    assert "--limit 0 for all" in cut.err
    assert cli.items("operation", "list", "--since", "2100-01-01") == []


@pytest.mark.parametrize(
    ("typed", "said", "next"),
    [
        (("operation", "list", "--nope"), "No such option", "vgpumgr operation list --help"),
        (("vm", "show"), "Missing argument", "vgpumgr vm show --help"),
        (("nosuch",), "No such command", "vgpumgr --help"),
    ],
)
def test_a_usage_error_is_one_of_ours(
    cli: Cli, typed: tuple[str, ...], said: str, next: str
) -> None:
    error = cli.fails(2, *typed, "-o", "json").error
    assert set(error) == {"code", "message", "why", "next", "exit"}
    assert (error["code"], error["exit"], error["next"]) == ("usage", 2, next)
    assert said in error["message"]


def test_a_vm_that_does_not_run_says_whether_that_was_asked_for(cli: Cli) -> None:
    rows = {row[0]: row[2:4] for row in cli.ok("vm", "list").rows}
    assert rows["plain"] == ["stopped", "shutoff"]
    assert rows["show"] == ["active", "running"]
