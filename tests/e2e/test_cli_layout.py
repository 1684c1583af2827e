"""``vgpumgr layout`` over simulated hosts: planned, asked for, applied, compared, carried over."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.support import Cli, host, host_dumps, new_cli, until, vm
from tests.unit.store import ledger_v1
from vgpumgr.model.host import HostRecord
from vgpumgr.sim.sim_client import SimHosts
from vgpumgr.store import open_ledger
from vgpumgr.store.schema import SCHEMA_VERSION

NEW = {"kernel": "6.12.43", "libvirt": "11.3.0", "qemu": "10.0.2", "driver": "580.105.06"}
A100, L40S = "A100-PCIE-80GB", "L40S"
CUT = {"model": A100, "mig": True, "vfs": "max", "instances": [{"profile": "3g.40gb", "count": 1}]}


@pytest.fixture
def cli() -> Iterator[Cli]:
    with new_cli() as found:
        found.sim_up(
            host("mig", (A100, 2), versions=NEW),
            host("mixed", (L40S, 1), versions=NEW),
            host("old", ("T4", 1)),
        )
        yield found


def layout(cli: Cli, *rules: dict[str, Any], hosts: tuple[str, ...] = ("mig",)) -> str:
    """A file with one layout."""
    document = {"kind": "Layout", "name": "cut", "hosts": list(hosts), "gpus": list(rules)}
    return cli.documents(document, name="layout.yaml")


def gpus(cli: Cli, host_name: str) -> list[dict[str, Any]]:
    return cli.items("gpu", "list", "--host", host_name)


def change_by_hand(cli: Cli, host_name: str, verb: str, **args: object) -> None:
    """What somebody does to the first GPU of a host, past the ledger."""
    ledger = open_ledger(cli.state / "ledger.sqlite", create=False)
    identity = (ledger.fleet_id(), ledger.epoch())
    ledger.close()
    hosts = SimHosts(cli.state / "sim", identity=lambda: identity)
    found = hosts.open(HostRecord(name=host_name, address=f"sim://{host_name}"))
    found.helper.call(verb, {"gpu": gpus(cli, host_name)[0]["device"], **args})
    hosts.close()


def as_found(cli: Cli, text: str) -> None:
    """A file that was not applied yet, of GPUs that look so: all there is to do is to keep it."""
    planned = cli.ok("layout", "plan", "-f", "-", "-o", "json", stdin=text.encode()).json
    assert [gpu["changes"] for gpu in planned["gpus"]] == [[]] * planned["changes"]
    said = {each for gpu in planned["gpus"] for each in gpu["differences"]}
    assert said == {"not kept on the host for its next boot"}
    cli.ok("layout", "apply", "-f", "-", "-y", stdin=text.encode())
    again = cli.ok("layout", "plan", "-f", "-", stdin=text.encode())
    assert again.out.startswith("nothing to change")


# -- plan and apply ---------------------------------------------------------------------------


def test_a_plan_says_how_gpus_differ_and_changes_nothing(cli: Cli) -> None:
    file = layout(cli, CUT)
    before = host_dumps(cli)
    shown = cli.ok("layout", "plan", "-f", file).out
    assert re.search(rf"^mig  {A100}  0000:\S+ 0000:\S+  \(layout cut\)$", shown, re.M)
    assert re.search(r"^  differs +MIG mode", shown, re.M)
    assert re.search(r"^  will +turn 20 VFs on$", shown, re.M)
    assert re.search(r"^  will +create GPU instance 3g\.40gb at \d$", shown, re.M)
    assert shown.endswith("2 GPUs to change, 0 refused, 0 as declared\n")
    cli.fails(10, "layout", "plan", "-f", file, "--detailed-exitcode")
    planned = cli.ok("layout", "plan", "-f", file, "-o", "json").json
    assert (planned["kind"], planned["changes"], planned["unchanged"]) == ("LayoutPlan", 2, 0)
    first = planned["gpus"][0]
    assert first["goal"]["vfs"] == "max"
    assert [each["kind"] for each in first["changes"]] == [
        "set-mig-mode",
        "set-vfs",
        "create-instance",
    ]
    assert host_dumps(cli) == before


def test_apply_asks_and_then_does_what_was_planned(cli: Cli) -> None:
    file = layout(cli, CUT)
    asked = cli.fails(2, "layout", "apply", "-f", file)
    assert "change 2 GPUs on mig?" in asked.err
    assert "next: add -y" in asked.err
    assert "will     turn 20 VFs on" in asked.err
    cli.ok("layout", "apply", "-f", file, "--dry-run")
    assert [gpu["mig"]["enabled"] for gpu in gpus(cli, "mig")] == [False, False]
    done = cli.ok("layout", "apply", "-f", file, "-y")
    assert done.out.startswith("2 of 2 done (operation ")
    for gpu in gpus(cli, "mig"):
        assert gpu["vfs"] == {"total": 20, "on": 20, "free": 20}
        assert [each["profile"] for each in gpu["mig"]["instances"]] == ["3g.40gb"]
        assert (gpu["layout"]["name"], gpu["layout"]["settled"]) == ("cut", True)


def test_applying_what_is_there_changes_nothing_and_asks_nothing(cli: Cli) -> None:
    file = layout(cli, CUT)
    cli.ok("layout", "apply", "-f", file, "-y")
    before = host_dumps(cli)
    again = cli.ok("layout", "apply", "-f", file)
    assert again.out == "nothing to change: 2 GPUs are as declared\n"
    assert again.err == ""
    applied = cli.ok("layout", "apply", "-f", file, "-o", "json").json
    assert (applied["kind"], applied["changes"], applied["unchanged"]) == ("LayoutApply", 0, 2)
    assert host_dumps(cli) == before


def test_a_gpu_that_is_as_declared_already_is_remembered(cli: Cli) -> None:
    """Nothing to do on one of two, and on neither later: both are asserted afterwards."""
    device = gpus(cli, "mig")[0]["device"]
    cli.ok("layout", "apply", "-f", layout(cli, {"devices": [device], "vfs": "max"}), "-y")
    cli.ok("layout", "apply", "-f", layout(cli, {"vfs": "max"}), "-y")
    assert [gpu["layout"]["settled"] for gpu in gpus(cli, "mig")] == [True, True]
    assert "2 GPUs are as declared" in cli.ok("layout", "assert").out


def test_what_a_vm_uses_is_not_changed_and_the_vm_is_named(cli: Cli) -> None:
    cli.ok("layout", "apply", "-f", layout(cli, CUT), "-y")
    cli.ok("apply", "-f", cli.documents(vm("busy", "1g.10gb")))
    before = host_dumps(cli)
    file = layout(cli, {"model": A100, "mig": False, "vfs": 0, "instances": []})
    refused = cli.fails(4, "layout", "apply", "-f", file, "-y", "-o", "json")
    assert refused.error["exit"] == 4
    assert "busy" in f"{refused.error['message']} {refused.error['why']}"
    assert refused.error["next"]
    planned = cli.fails(4, "layout", "plan", "-f", file)
    assert "busy" in planned.out
    assert re.search(r"^  refused  ", planned.out, re.M)
    assert planned.out.endswith("1 GPU to change, 1 refused, 0 as declared\n")
    assert host_dumps(cli) == before
    cli.ok("vm", "delete", "busy", "--force", "-y")
    cli.ok("layout", "apply", "-f", file, "-y")
    assert [gpu["mig"]["enabled"] for gpu in gpus(cli, "mig")] == [False, False]


def test_a_file_without_a_layout_is_refused(cli: Cli) -> None:
    refused = cli.fails(2, "layout", "plan", "-f", cli.documents(vm("web")))
    assert "holds no layout" in refused.err
    refused = cli.fails(2, "apply", "-f", layout(cli, CUT))
    assert "change 2 GPUs on mig?" in refused.err


# -- layouts beside VMs in one file -----------------------------------------------------------


def test_apply_asks_before_it_partitions_and_then_makes_the_vms(cli: Cli) -> None:
    cut = {"kind": "Layout", "name": "cut", "hosts": ["mig"], "gpus": [CUT]}
    file = cli.documents(cut, vm("web", "1g.10gb"), name="both.yaml")
    before = host_dumps(cli)
    refused = cli.fails(2, "apply", "-f", file, "-o", "json")
    assert refused.error["message"] == "change 2 GPUs on mig?"
    assert refused.error["next"] == "add -y"
    assert cli.ok("plan", "-f", file, "-o", "json").json["layouts"]["changes"] == 2
    cli.fails(10, "diff", "-f", file)
    assert host_dumps(cli) == before
    cli.ok("apply", "-f", file, "-y")
    cli.ok("diff", "-f", file)
    cli.ok("delete", "-f", file, "--force", "-y")
    assert gpus(cli, "mig")[0]["mig"]["enabled"]


# -- assert -----------------------------------------------------------------------------------


def test_assert_finds_what_somebody_else_changed(cli: Cli) -> None:
    file = layout(cli, {"vfs": "max", "mixed_size": True}, hosts=("mixed",))
    assert cli.ok("layout", "assert").out == "no GPU has a layout\n"
    assert "differs" in cli.fails(10, "layout", "assert", "-f", file).out
    cli.ok("layout", "apply", "-f", file, "-y")
    assert cli.ok("layout", "assert").out == "1 GPU is as declared\n"
    change_by_hand(cli, "mixed", "mixed_size_set", enabled=False)
    found = cli.fails(10, "layout", "assert", "-o", "json").json
    assert ["mixed-size" in each for each in found["gpus"][0]["differences"]] == [True]
    cli.fails(10, "layout", "assert", "-f", file)
    cli.ok("layout", "apply", "-f", file, "-y")
    cli.ok("layout", "assert")


def test_what_was_made_for_a_vm_is_no_difference(cli: Cli) -> None:
    cli.ok("layout", "apply", "-f", layout(cli, {**CUT, "instances": []}), "-y")
    cli.ok("apply", "-f", cli.documents(vm("busy", "2g.20gb")))
    cli.ok("layout", "assert")


def test_a_host_that_cannot_be_read_is_said_so(cli: Cli) -> None:
    cli.ok("layout", "apply", "-f", layout(cli, CUT), "-y")
    cli.ok("sim", "inject", "mig", "unreachable")
    assert "mig" in cli.fails(7, "layout", "assert").err


# -- show and the lists -----------------------------------------------------------------------


def test_show_has_declared_and_found_and_who_lives_where(cli: Cli) -> None:
    cli.ok("layout", "apply", "-f", layout(cli, CUT), "-y")
    cli.ok("apply", "-f", cli.documents(vm("busy", "1g.10gb"), vm("large", "3g.40gb")))
    shown = cli.ok("layout", "show", "mig").out
    assert re.search(rf"^mig +0000:\S+ +{A100} +cut +\d GIs? +\d+/20 ", shown, re.M)
    assert re.search(r"^    declared  mig: true, vfs: max, instances: 3g\.40gb$", shown, re.M)
    assert re.search(r"^    1g\.10gb at \d: busy$", shown, re.M)
    assert re.search(r"^    3g\.40gb at \d: large$", shown, re.M)
    assert re.search(r"^    3g\.40gb at \d: empty$", shown, re.M)
    assert "old" not in cli.ok("layout", "show", "mig").out
    item = next(
        each
        for each in cli.items("layout", "show", "mig")
        if any(one["made_for_vm"] for one in each["mig"]["instances"])
    )
    assert item["layout"]["declared"] == {
        "mig": True,
        "vfs": "max",
        "instances": [{"profile": "3g.40gb", "start": None, "compute": []}],
    }
    [made] = [one for one in item["mig"]["instances"] if one["made_for_vm"]]
    assert made["vgpus"] == [{"vm": "busy", "foreign": "", "profile": "1g.10gb"}]
    cli.fails(3, "layout", "show", "nowhere")


def test_vms_gpus_and_the_map_show_vfs_and_instances(cli: Cli) -> None:
    cli.ok("layout", "apply", "-f", layout(cli, CUT), "-y")
    cli.ok("apply", "-f", cli.documents(vm("busy", "1g.10gb")))
    text = cli.ok("vm", "show", "busy").out
    assert re.search(
        r"^GPU: +1g\.10gb \(vfio-vf\) 0000:\S+ on gpu-\w+, VF \d+, "
        r"in GPU instance 1g\.10gb at \d, made for it$",
        text,
        re.M,
    )
    part = cli.ok("vm", "show", "busy", "-o", "json").json["gpus"][0]
    assert (part["instance"]["profile"], part["placement_id"]) == ("1g.10gb", None)
    assert isinstance(part["vf"], int)
    gpu = next(each for each in gpus(cli, "mig") if each["allocations"])
    assert gpu["vfs"] == {"total": 20, "on": 20, "free": 19}
    shown = cli.ok("gpu", "show", gpu["name"]).out
    assert re.search(r"^VFs: +20 of 20 on, 19 free$", shown, re.M)
    assert re.search(r"^GPU instance: +1g\.10gb at \d: busy$", shown, re.M)
    drawn = cli.ok("map").out
    assert re.search(
        r"\[[.=]*A+[.=]*\] +\d+/80 +1g\.10gb, 3g\.40gb empty, 19 VFs free$", drawn, re.M
    )
    assert re.search(r"\[[.=]*={12}[.=]*\] +40/80 +3g\.40gb empty, 20 VFs free$", drawn, re.M)


def test_a_mixed_size_gpu_is_drawn_where_its_vgpus_lie(cli: Cli) -> None:
    file = layout(cli, {"vfs": "max", "mixed_size": True}, hosts=("mixed",))
    cli.ok("layout", "apply", "-f", file, "-y")
    cli.ok("apply", "-f", cli.documents(vm("big", "L40S-24Q"), vm("small", "L40S-8Q")))
    parts = {item["name"]: item["gpus"][0]["placement_id"] for item in cli.items("vm", "list")}
    assert None not in parts.values()
    [bar] = re.findall(r"L40S +\[(\S+)\]", cli.ok("map").out)
    assert sorted(bar.count(letter) for letter in "AB") == [4, 12]
    assert {bar.index(letter) * 2 for letter in "AB"} == set(parts.values())
    assert re.search(r"^Mode: +mixed-size$", cli.ok("gpu", "show", "mixed/0000:41:00.0").out, re.M)


# -- other tools' files -----------------------------------------------------------------------


def test_what_is_exported_is_what_is_there(cli: Cli) -> None:
    cli.ok("layout", "apply", "-f", layout(cli, CUT), "-y")
    written = cli.ok("layout", "export").out
    documents = list(yaml.safe_load_all(written))
    assert {each["kind"] for each in documents} == {"Layout"}
    assert "mig" in {each["hosts"][0] for each in documents}
    as_found(cli, written)
    only = cli.ok("layout", "export", "mig", "-o", "json").json
    assert (only["kind"], len(only["items"])) == ("LayoutList", 1)
    cli.fails(3, "layout", "export", "nowhere")


def test_a_layout_goes_through_mig_parteds_file_and_back(cli: Cli) -> None:
    """With the compute instances that mig-parted always makes."""
    filled = {"profile": "3g.40gb", "compute": ["1c.3g.40gb", "2c.3g.40gb"]}
    cut = {**CUT, "instances": [filled, {"profile": "1g.10gb", "compute": ["1g.10gb"]}]}
    cli.ok("layout", "apply", "-f", layout(cli, cut), "-y")
    written = cli.ok("layout", "export", "mig", "--format", "mig-parted").out
    assert yaml.safe_load(written)["version"] == "v1"
    file = cli.file(written, "theirs.yaml")
    ours = cli.ok("layout", "import", file, "--format", "mig-parted", "--host", "mig").out
    [document] = yaml.safe_load_all(ours)
    assert (document["kind"], document["hosts"]) == ("Layout", ["mig"])
    as_found(cli, ours)


def test_what_another_tool_has_no_words_for_is_said(cli: Cli) -> None:
    cli.ok("layout", "apply", "-f", layout(cli, CUT), "-y")
    written = cli.ok("layout", "export", "mig", "--format", "mig-parted")
    assert re.search(r"^note: .*vfs", written.err, re.M)
    nothing = cli.fails(2, "layout", "export", "old", "--format", "vgpu-device-manager")
    assert nothing.out == ""


def test_a_file_of_mig_parted_becomes_ours(cli: Cli) -> None:
    theirs = {
        "version": "v1",
        "mig-configs": {
            "all-1g.10gb": [{"devices": "all", "mig-enabled": True, "mig-devices": {"1g.10gb": 7}}],
            "none": [{"devices": "all", "mig-enabled": False, "mig-devices": {}}],
        },
    }
    file = cli.file(yaml.safe_dump(theirs), "theirs.yaml")
    cli.fails(2, "layout", "import", file)
    without = cli.ok("layout", "import", file, "--config", "all-1g.10gb")
    assert "it names no host" in without.err
    assert "hosts" not in yaml.safe_load(without.out)
    ours = cli.ok(
        "layout", "import", file, "--config", "all-1g.10gb", "--host", "mig", "-o", "yaml"
    )
    cli.ok("layout", "apply", "-f", "-", "-y", stdin=ours.out.encode())
    assert {len(gpu["mig"]["instances"]) for gpu in gpus(cli, "mig")} == {7}


@pytest.mark.parametrize("text", ["{}", "version: v1", "[", "version: v1\nmig-configs: 3\n"])
def test_a_file_of_no_tool_is_refused(cli: Cli, text: str) -> None:
    failed = cli.fails(2, "layout", "import", cli.file(text, "theirs.yaml"), "-o", "json")
    assert failed.error["code"].startswith("usage")
    cli.fails(3, "layout", "import", "nowhere.yaml")


# -- a host with NVSwitch ---------------------------------------------------------------------


def fabric_is_up(cli: Cli) -> bool:
    cli.ok("host", "probe", "hgx")
    return cli.ok("host", "show", "hgx", "-o", "json").json["fabric"] is not None


def test_partitions_are_shown_with_the_host_and_the_vm() -> None:
    with new_cli() as cli:
        cli.sim_up(
            host("hgx", ("H100-SXM5-80GB", 8), memory="2TiB", fabric="HGX-H100-8", versions=NEW)
        )
        until(lambda: fabric_is_up(cli), "the Fabric Manager to be configured")
        whole = {"profile": "passthrough", "model": "H100-SXM5-80GB", "count": 2}
        cli.ok("apply", "-f", cli.documents({**vm("pair"), "gpus": [whole]}))
        shown = cli.ok("host", "show", "hgx").out
        assert len(re.findall(r"^NVSwitch partition: +\d+: modules ", shown, re.M)) == 15
        [active] = re.findall(r"partition: +(\d+): modules \d, \d, active$", shown, re.M)
        parts = cli.ok("vm", "show", "pair", "-o", "json").json["gpus"]
        assert {part["partition"] for part in parts} == {int(active)}
        assert f"NVSwitch partition {active}" in cli.ok("vm", "show", "pair").out


# -- a ledger of the version before -----------------------------------------------------------


@pytest.fixture
def old_ledger() -> Iterator[tuple[Cli, Path]]:
    with new_cli() as found:
        found.state.mkdir()
        path = found.state / "ledger.sqlite"
        ledger_v1.make(path)
        yield found, path


@pytest.mark.parametrize("command", ["vm list", "host list", "map", "layout show", "capacity"])
def test_reading_an_older_ledger_names_the_command_that_migrates_it(
    old_ledger: tuple[Cli, Path], command: str
) -> None:
    cli, _ = old_ledger
    failed = cli.fails(1, *command.split(), "-o", "json")
    assert failed.error["code"] == "ledger"
    assert failed.error["next"].startswith("vgpumgr store migrate")
    done = cli.ok("store", "migrate", "-o", "json").json
    assert (done["before"], done["after"]) == (1, SCHEMA_VERSION)
    assert Path(done["backup"]).is_file()
    cli.ok(*command.split())
    assert [item["name"] for item in cli.items("vm", "list")] == ["desk"]
    assert "nothing to migrate" in cli.ok("store", "migrate").out
    assert json.loads(cli.ok("allocation", "list", "-o", "json").out)["items"][0]["vf"] is None


def test_a_command_that_changes_migrates_and_says_so(old_ledger: tuple[Cli, Path]) -> None:
    cli, path = old_ledger
    cli.sim_up(host("new", ("T4", 1)))
    assert path.with_name("ledger.sqlite.schema-1").is_file()
    assert {item["name"] for item in cli.items("host", "list")} == {"h1", "new"}


def test_what_nvidia_smi_lists_of_a_host_becomes_its_layout(cli: Cli) -> None:
    listing = "tests/cases/nvidia-smi/lgi.txt"
    assert "--host" in cli.fails(2, "layout", "import", listing).err
    file = cli.file(cli.ok("layout", "import", listing, "--host", "mig").out)
    cli.fails(10, "layout", "assert", "-f", file)
    cli.ok("layout", "apply", "-f", file, "-y")
    cli.ok("layout", "assert", "-f", file)


def test_an_unread_host_is_not_called_as_declared(cli: Cli) -> None:
    file = layout(cli, CUT)
    cli.ok("sim", "inject", "mig", "unreachable")
    for command in (("assert",), ("plan",), ("apply", "-y")):
        ran = cli.fails(7, "layout", command[0], "-f", file, *command[1:])
        assert "declared" not in ran.out
        assert "could be read" in ran.out
