"""``vgpumgr vm migrate`` as a user types it, on a simulated fleet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.support import Cli, host, host_dumps, interrupt, new_cli, vm

NEW = {"kernel": "6.12.43", "libvirt": "11.3.0", "qemu": "10.0.2", "driver": "580.105.06"}
OLDER = {**NEW, "qemu": "9.2.0"}
OTHER = {**NEW, "driver": "570.86.16"}
VFS = "apiVersion: vgpumgr/v1\nkind: Layout\nname: vfs\nhosts: [h1, h2]\n"


@pytest.fixture(scope="module")
def cli() -> Iterator[Cli]:
    """h1 and h2 alike; h3 with another driver, h4 with an older QEMU, h5 without GPUs, h6 with
    another CPU, h7 without certificates.
    """
    with new_cli() as found:
        boards = (("T4", 2), ("L40S", 1))
        found.sim_up(
            host("h1", *boards, versions=NEW),
            host("h2", *boards, versions=NEW),
            host("h3", *boards, versions=OTHER),
            host("h4", *boards, versions=OLDER),
            host("h5", versions=NEW),
            host("h6", *boards, versions=NEW, cpu_model="Intel(R) Xeon(R) Gold 6338"),
            host("h7", *boards, versions=NEW, tls=False),
        )
        layout = f"{VFS}gpus: [{{model: L40S, vfs: max}}]\n"
        found.ok("layout", "apply", "-f", found.file(layout, "layout.yaml"), "-y")
        for number in (2, 3, 4, 5, 6, 7):
            found.ok("host", "migration", f"h{number}", "--address", f"h{number}")
        yield found


@pytest.fixture
def made(cli: Cli) -> Iterator[Cli]:
    """Whatever a test makes is gone afterwards, and h1 is the host for new VMs."""
    yield cli
    names = [each["name"] for each in cli.items("vm", "list")]
    if names:
        cli.ok("vm", "delete", *names, "--force", "-y")


def create(cli: Cli, *profiles: str, **more: Any) -> None:
    """A VM named desk on h1."""
    document = vm("desk", *profiles, affinity={"hosts": ["h1"]}, **more)
    cli.ok("apply", "-f", cli.documents(document))
    free = {key: value for key, value in document.items() if key != "affinity"}
    cli.ok("apply", "-f", cli.documents(free))


def desk(cli: Cli) -> dict[str, Any]:
    found: dict[str, Any] = cli.ok("vm", "show", "desk", "-o", "json").json
    return found


def on_hosts(cli: Cli) -> dict[str, tuple[int, int, int]]:
    """Domains, claims and mdevs of each host."""
    return {
        each["host"]: (len(each["domains"]), len(each["claims"]), len(each["mdevs"]))
        for each in host_dumps(cli)
    }


@pytest.mark.parametrize("profile", ["T4-8Q", "L40S-8Q"], ids=["mdev", "vfio-vf"])
def test_a_running_vm_moves(made: Cli, profile: str) -> None:
    empty = on_hosts(made)
    create(made, profile, disks=[{"size": "1GiB"}], networks=[{"network": "default"}])
    before, xml = desk(made), made.ok("vm", "xml", "desk").out
    ran = made.ok("vm", "migrate", "desk", "--to", "h2")
    assert "move domain desk, h1 → h2" in ran.err
    after = desk(made)
    assert (before["host"], after["host"]) == ("h1", "h2")
    assert (after["power"], after["id"], after["moving_to"]) == ("running", before["id"], None)
    assert after["gpus"][0]["profile"] == profile
    mac = next(line.strip() for line in xml.splitlines() if "mac address" in line)
    assert mac in made.ok("vm", "xml", "desk").out
    now = on_hosts(made)
    assert now["h1"] == empty["h1"]
    assert now["h2"][:2] == (empty["h2"][0] + 1, empty["h2"][1] + 1)
    assert made.items("operation", "list", "--open") == []
    assert len(made.items("allocation", "list")) == 1


def test_a_dry_run_shows_every_check_and_changes_nothing(made: Cli) -> None:
    create(made, "T4-8Q", disks=[{"size": "1GiB"}])
    before = host_dumps(made)
    ran = made.ok("vm", "migrate", "desk", "--to", "h2", "--dry-run", "-o", "json")
    assert ran.json["live"] and ran.json["possible"]
    seen = {check["name"] for check in ran.json["checks"]}
    assert seen >= {"name", "framework", "address", "libvirt", "qemu", "kernel"}
    assert seen >= {"driver", "cpu", "disk", "room"}
    [disk] = ran.json["disks"]
    assert (disk["copied"], disk["size_bytes"]) == (True, 1 << 30)
    text = made.ok("vm", "migrate", "desk", "--to", "h2", "--dry-run").out
    assert "desk: h1 → h2, while it runs" in text and "is copied to h2: 1 GiB" in text
    assert host_dumps(made) == before
    assert desk(made)["host"] == "h1"


def test_whole_gpus_move_cold(made: Cli) -> None:
    create(made, "passthrough", disks=[{"size": "1GiB"}])
    error = made.fails(4, "vm", "migrate", "desk", "--to", "h2", "-o", "json").error
    assert "cannot move while desk runs" in error["why"] and "--cold" in error["next"]
    ran = made.ok("vm", "migrate", "desk", "--to", "h2", "--cold")
    assert "copy volume" in ran.err
    assert (desk(made)["host"], desk(made)["power"]) == ("h2", "running")
    assert made.items("operation", "list", "--open") == []


def test_a_vm_that_is_off_moves_and_stays_off(made: Cli) -> None:
    create(made, "T4-8Q", disks=[{"size": "1GiB"}])
    made.ok("vm", "stop", "desk", "--force")
    made.ok("vm", "migrate", "desk", "--to", "h3")
    assert (desk(made)["host"], desk(made)["power"]) == ("h3", "shutoff")
    made.ok("vm", "start", "desk")
    assert desk(made)["power"] == "running"


REFUSED = {
    "no address": ("h1", 4, "is on h1 already"),
    "driver": ("h3", 4, "they must be the same"),
    "older": ("h4", 4, "is older than"),
    "no GPU": ("h5", 5, "h5"),
    "cpu": ("h6", 4, "libvirt cannot compare the CPUs"),
    "unknown": ("h9", 3, "h9"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_refusal_says_why_and_what_next(made: Cli, case: str) -> None:
    create(made, "T4-8Q")
    to, code, words = REFUSED[case]
    for more in ((), ("--dry-run",)):
        ran = made.fails(code, "vm", "migrate", "desk", "--to", to, *more, "-o", "json")
        error = ran.error
        assert words in f"{error['message']} {error['why']}"
        assert error["next"]
    assert desk(made)["host"] == "h1"
    assert desk(made)["state"] == "active"


def test_a_host_without_certificates_takes_it_in_clear_only(made: Cli) -> None:
    create(made, "T4-8Q")
    made.fails(1, "vm", "migrate", "desk", "--to", "h7")
    assert (desk(made)["host"], desk(made)["power"]) == ("h1", "running")
    made.ok("host", "migration", "h7", "--address", "h7", "--no-tls")
    made.ok("vm", "migrate", "desk", "--to", "h7")
    assert (desk(made)["host"], desk(made)["power"]) == ("h7", "running")


def test_no_room_and_no_cordoned_host(made: Cli) -> None:
    create(made, "T4-8Q")
    made.ok("host", "cordon", "h2")
    try:
        error = made.fails(4, "vm", "migrate", "desk", "--to", "h2", "-o", "json").error
        assert error["next"] == "vgpumgr host uncordon h2"
    finally:
        made.ok("host", "uncordon", "h2")
    other = vm("other", "passthrough", "passthrough", affinity={"hosts": ["h2"]})
    other["gpus"] = [{"profile": "passthrough", "model": "T4", "count": 2}]
    made.ok("apply", "-f", made.documents(other, name="other.yaml"))
    assert made.fails(5, "vm", "migrate", "desk", "--to", "h2").err
    made.fails(5, "vm", "migrate", "desk", "--to", "h2", "--cold")


def test_usage(made: Cli) -> None:
    create(made)
    made.fails(2, "vm", "migrate", "desk")
    made.fails(3, "vm", "migrate", "nobody", "--to", "h2")
    made.fails(2, "host", "migration", "h2")
    made.fails(2, "host", "migration", "h2", "--address", "a b")
    made.fails(2, "host", "migration", "h2", "--address", "a", "--off")


def test_the_address_can_be_set_changed_and_taken_away(made: Cli) -> None:
    create(made, "T4-8Q")
    options = ("--address", "gpu2.lan", "--no-tls", "--bandwidth", "500MiB")
    made.ok("host", "migration", "h2", *options)
    shown = made.ok("host", "show", "h2", "-o", "json").json["migration"]
    assert shown == {"address": "gpu2.lan", "tls": False, "tls_name": "", "bandwidth_mib_s": 500}
    assert "NOT encrypted" in made.ok("host", "show", "h2").out
    assert "NOT encrypted" in made.ok("vm", "migrate", "desk", "--to", "h2", "--dry-run").out
    made.ok("host", "migration", "h2", "--off")
    error = made.fails(4, "vm", "migrate", "desk", "--to", "h2", "-o", "json").error
    assert "no migration address" in error["why"]
    made.ok("host", "migration", "h2", "--address", "h2")


def test_a_host_that_is_down(made: Cli) -> None:
    create(made, "T4-8Q")
    made.ok("sim", "inject", "h2", "unreachable")
    try:
        made.fails(6, "vm", "migrate", "desk", "--to", "h2")
    finally:
        made.ok("sim", "inject", "h2", "clear")
    made.ok("vm", "migrate", "desk", "--to", "h2")


def test_what_is_left_of_a_move_is_shown_waited_for_and_finished(made: Cli) -> None:
    """The source refuses to give its device back: the VM runs on h2, the rest is still to do."""
    create(made, "T4-8Q")
    made.ok("sim", "inject", "h1", "refuse", "mdev_remove", "EIO", "1")
    ran = made.fails(1, "vm", "migrate", "desk", "--to", "h2")
    assert "the same command resumes it" in ran.err
    shown = desk(made)
    assert (shown["host"], shown["moving_to"], shown["state"]) == ("h1", "h2", "migrating")
    assert "migrating to h2" in made.ok("vm", "show", "desk").out
    assert {each["state"] for each in made.items("vm", "list")} == {"migrating"}
    [operation] = made.items("operation", "list", "--open")
    for command in (("stop", "desk"), ("start", "desk"), ("delete", "desk", "--force", "-y")):
        error = made.fails(4, "vm", *command, "-o", "json").error
        assert f"operation resume {operation['name'][:8]}" in error["next"]
    made.fails(4, "vm", "migrate", "desk", "--to", "h3")
    made.fails(4, "host", "remove", "h2", "-y")
    undo = made.fails(4, "operation", "undo", operation["name"])
    assert "can no longer be undone" in undo.err
    assert f"next: vgpumgr operation resume {operation['name'][:8]}" in undo.err
    shown = made.ok("operation", "show", operation["name"]).out
    assert f"operation resume {operation['name']}   (it only goes forward)" in shown
    made.ok("operation", "resume", operation["name"])
    assert (desk(made)["host"], desk(made)["state"]) == ("h2", "active")
    assert made.items("operation", "list", "--open") == []


def test_a_refused_move_is_taken_back(made: Cli) -> None:
    create(made, "T4-8Q", disks=[{"size": "1GiB"}])
    before = on_hosts(made)
    made.ok("sim", "inject", "h2", "refuse", "mdev_create", "EIO", "1")
    made.fails(1, "vm", "migrate", "desk", "--to", "h2")
    assert on_hosts(made) == before
    assert (desk(made)["host"], desk(made)["state"], desk(made)["power"]) == (
        "h1", "active", "running",
    )  # fmt: skip
    made.ok("vm", "migrate", "desk", "--to", "h2")


def test_ctrl_c_leaves_it_running_where_it_was(made: Cli) -> None:
    create(made, "T4-8Q")
    made.ok("sim", "inject", "h2", "latency", "0.5")
    process = made.process("vm", "migrate", "desk", "--to", "h2")
    assert process.stderr is not None
    line = ""
    while "create T4-8Q" not in line:
        line = process.stderr.readline()
        assert line, "it ended without a word"
    ran = interrupt(process)
    made.ok("sim", "inject", "h2", "clear")
    assert ran.code == 130
    [operation] = made.items("operation", "list", "--open")
    made.ok("operation", "undo", operation["name"])
    assert (desk(made)["host"], desk(made)["power"], desk(made)["state"]) == (
        "h1", "running", "active",
    )  # fmt: skip
    assert made.items("operation", "list", "--open") == []


def test_apply_finishes_a_move_first(made: Cli) -> None:
    create(made, "T4-8Q")
    made.ok("sim", "inject", "h1", "refuse", "mdev_remove", "EIO", "1")
    made.fails(1, "vm", "migrate", "desk", "--to", "h2")
    made.ok("apply", "-f", made.documents(vm("desk", "T4-8Q")))
    assert (desk(made)["host"], desk(made)["state"]) == ("h2", "active")
