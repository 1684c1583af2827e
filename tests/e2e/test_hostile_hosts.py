"""Hosts that answer nonsense, escapes, or what contradicts itself: others are unharmed."""

from __future__ import annotations

import contextlib
import json
import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

import pytest

from tests.e2e.support import Cli, host, new_cli, vm
from tests.hostile.world import NEW, RAW
from vgpumgr.hosts.program_runner import CompletedProgram
from vgpumgr.sim.transport.libvirt_proxies import SimRunner

pytestmark = pytest.mark.mainline

MIG = "A100-PCIE-40GB"
READS = (
    ("host", "list"),
    ("host", "show", "bad"),
    ("gpu", "list"),
    ("map",),
    ("capacity",),
    ("layout", "show"),
    ("layout", "export"),
    ("drift",),
    ("heal",),
    ("vm", "list"),
    ("doctor",),
    ("adopt",),
    ("serve", "--once"),
)
ESCAPES = "T4\x1b]0;owned\x07\x1b[2J\x9b31m\x7f\u202e\u2066\u2028\u061c"

Edit = Callable[[dict[str, Any]], object]


@pytest.fixture(scope="module")
def fleet() -> Iterator[Cli]:
    """A good host, and one whose answers the tests rewrite."""
    with new_cli() as made:
        made.sim_up(host("good", ("T4", 1)), host("bad", ("T4", 1), (MIG, 1), versions=NEW))
        yield made


@pytest.fixture
def cli(fleet: Cli) -> Iterator[Cli]:
    yield fleet
    fleet.ok("host", "probe")


@contextlib.contextmanager
def answering(verb: str, edit: Edit) -> Iterator[None]:
    """The helper's whole answers to a verb, as the host with an A100 gives them, rewritten."""
    run = SimRunner.run

    def rewritten(self: SimRunner, argv: Sequence[str], stdin: bytes, timeout_s: float) -> Any:
        ended = run(self, argv, stdin, timeout_s)
        answer = json.loads(ended.out)
        if json.loads(stdin)["verb"] != verb or "A100" not in json.dumps(answer):
            return ended
        edit(answer)
        return CompletedProgram(0, json.dumps(answer).encode(), "")

    with mock.patch.object(SimRunner, "run", rewritten):
        yield


def _nvml(answer: dict[str, Any], model: str = "A100") -> dict[str, Any]:
    gpus: list[dict[str, Any]] = answer["result"]["nvml"]["gpus"]
    return next(each for each in gpus if model in each["name"])


def _many(answer: dict[str, Any]) -> None:
    device = answer["result"]["devices"][0]
    answer["result"]["devices"] = [{**device, "address": f"{n:04x}:41:00.0"} for n in range(8000)]


def _instance(answer: dict[str, Any]) -> None:
    at = {"id": 1, "profile": "1g.5gb", "profile_id": 19, "start": -5, "size": 1, "compute": []}
    _nvml(answer)["mig"] = {"enabled": True, "pending": True, "profiles": [], "instances": [at]}


NONSENSE: dict[str, Edit] = {
    "memory of 10**4000 MiB": lambda answer: answer["result"].update(memory_mib=10**4000),
    "2**70 CPUs": lambda answer: answer["result"].update(cpus=2**70),
    "a GPU of 10**4000 MiB": lambda answer: _nvml(answer).update(memory_mib=10**4000),
    "a GPU instance at slice -5": _instance,
    "8,000 GPUs": _many,
    "an unknown scheduler": lambda answer: _nvml(answer).update(scheduler="whim"),
    "half a character": lambda answer: answer["result"].update(cpu_model="\ud800"),
    "one address twice": lambda answer: answer["result"].update(
        devices=answer["result"]["devices"][:1] * 2
    ),
}


@pytest.mark.parametrize("edit", NONSENSE.values(), ids=NONSENSE)
def test_a_host_that_answers_nonsense_is_named_and_harms_nobody(cli: Cli, edit: Edit) -> None:
    before = _of_good(cli)
    with answering("probe", edit):
        ran = cli("host", "probe")
        for words in READS:
            cli(*words)
        assert _of_good(cli) == before
        assert "cannot be understood" in ran.err
        assert "good: 1 GPU" in ran.out + ran.err
        assert "cannot be understood" in cli.ok("host", "show", "bad").out
        placed = cli.fails(7, "plan", "-f", cli.documents(vm("wish", "T4-4Q")), "-o", "json")
        assert placed.json["actions"][0]["host"] == "good"


def test_the_part_that_makes_no_sense_is_named_with_what_to_type(cli: Cli) -> None:
    with answering("probe", NONSENSE["an unknown scheduler"]):
        failed = cli("host", "probe", "bad")
    assert "nvml.gpus[1].scheduler" in failed.err
    assert '"whim"' in failed.err
    assert "vgpumgr host upgrade bad" in failed.err


def test_a_refusal_that_utf8_cannot_hold_is_told(cli: Cli) -> None:
    with answering("probe", _refused("cut \ud800 off")):
        ran = cli("drift")
        assert "bad" in ran.err + ran.out
        assert "\ufffd" in cli("host", "probe", "bad").err


def test_what_an_older_version_kept_out_of_range_stops_no_reading(cli: Cli) -> None:
    ledger = sqlite3.connect(cli.state / "ledger.sqlite")
    try:
        for table, key, value in (
            ("gpu", "memory_mib", 10**400),
            ("gpu", "scheduler", "whim"),
            ("host", "cpus", 2**70),
        ):
            [(text, row)] = ledger.execute(
                f"select facts, rowid from {table} where host = 'bad' limit 1"
                if table == "gpu"
                else "select facts, rowid from host where name = 'bad'"
            ).fetchall()
            kept = json.dumps({**json.loads(text), key: value})
            ledger.execute(f"update {table} set facts = ? where rowid = ?", (kept, row))
            ledger.commit()
            for words in READS[:10]:
                cli(*words)
            cli.ok("host", "probe", "bad")
    finally:
        ledger.close()


def test_no_control_character_of_a_host_reaches_the_terminal(cli: Cli) -> None:
    def edit(answer: dict[str, Any]) -> None:
        answer["result"].update(hostname=ESCAPES, cpu_model=ESCAPES, qemu=ESCAPES)
        answer["result"]["unknown"] = [{"part": "mdevs", "why": ESCAPES}]
        _nvml(answer).update(health="lost", health_detail=ESCAPES, name=ESCAPES)

    with answering("probe", edit):
        cli("host", "probe", "bad")
        for words in (*READS, *(("gpu", "list", "-o", kind) for kind in ("wide", "csv", "yaml"))):
            ran = cli(*words)
            assert not RAW.search(ran.out), (words, ran.out)
            assert not RAW.search(ran.err), (words, ran.err)
        item = next(each for each in cli.items("gpu", "list") if each["health"] == "lost")
        assert item["health_detail"] == ESCAPES


def test_a_refusal_with_escapes_is_harmless_and_stands_in_its_place(cli: Cli) -> None:
    with answering("probe", _refused(f"{ESCAPES}\nerror: all is lost")):
        for words in (("host", "probe", "bad"), ("host", "list"), ("serve", "--once")):
            ran = cli(*words)
            assert not RAW.search(ran.out + ran.err), (words, ran)
            assert not re.search("^error: all is lost", ran.out + ran.err, re.MULTILINE)


def test_json_on_a_terminal_is_exact_and_carries_no_control(cli: Cli) -> None:
    with answering("probe", lambda answer: answer["result"].update(qemu=ESCAPES)):
        cli.ok("host", "probe", "bad")
        ran = cli.ok("host", "show", "bad", "-o", "json")
    assert ran.out.isascii() and not RAW.search(ran.out)
    assert ran.json["versions"]["qemu"] == ESCAPES


def test_a_gpu_whose_handle_nvml_refuses_takes_no_vm(cli: Cli) -> None:
    def edit(answer: dict[str, Any]) -> None:
        told = _nvml(answer, "T4")
        kept = {"address": told["address"], "health_detail": "NVML gives no handle"}
        told.update({**dict.fromkeys(told), **kept})

    wish = cli.documents(vm("ill", "T4-4Q", affinity={"hosts": ["bad"]}))
    with answering("probe", edit):
        refused = cli.fails(5, "apply", "-f", wish)
        assert "its health is unknown: NVML gives no handle" in refused.err
        listed = cli.ok("gpu", "list", "--columns", "HOST,MODEL,STATE").rows
        assert ["bad", "T4", "unknown"] in listed


@pytest.mark.parametrize("fault", ["remap-failed", "hidden"])
def test_a_broken_board_takes_no_vm_and_says_why(cli: Cli, fault: str) -> None:
    [gpu] = [g for g in cli.items("gpu", "list") if (g["host"], g["model"]) == ("bad", MIG)]
    wish = [{"profile": "passthrough", "model": MIG}]
    file = cli.documents(vm("ill", gpus=wish, affinity={"hosts": ["bad"]}))
    cli.ok("plan", "-f", file)
    cli.ok("sim", "inject", "bad", "gpu", gpu["device"], fault)
    try:
        refused = cli.fails(5, "apply", "-f", file)
        words = {"remap-failed": "replace the board", "hidden": "health is unknown"}
        assert words[fault] in refused.err
        assert f"gpu show {gpu['name']}" in cli("doctor").out
    finally:
        cli.ok("sim", "inject", "bad", "clear")
        cli.ok("host", "probe", "bad")
        cli("heal", "--lift", gpu["name"])


@pytest.mark.parametrize(
    ("told", "says"),
    [
        ({"name": "NVIDIA GB200"}, "its driver calls it NVIDIA GB200"),
        ({"memory_mib": 196608}, "196608 MiB"),
    ],
)
def test_a_board_that_contradicts_its_pci_id_stops_and_asks(
    cli: Cli, told: dict[str, Any], says: str
) -> None:
    wish = [{"profile": "passthrough", "model": MIG}]
    file = cli.documents(vm("which", gpus=wish, affinity={"hosts": ["bad"]}))
    with answering("probe", lambda answer: _nvml(answer).update(told)):
        refused = cli.fails(5, "apply", "-f", file)
        assert says in refused.err
        [gpu] = [g for g in cli.items("gpu", "list") if (g["host"], g["model"]) == ("bad", MIG)]
        shown = cli.ok("gpu", "show", gpu["name"]).out
        assert says in shown and "vgpumgr host probe bad" in shown


def _refused(message: str) -> Edit:
    def edit(answer: dict[str, Any]) -> None:
        answer.clear()
        error = {"code": "refused", "message": message, "why": message, "errno": message}
        answer.update(ok=False, error=error)

    return edit


def _of_good(cli: Cli) -> list[str]:
    listed = [
        cli.ok("host", "list", "--columns", "NAME,GPUS,CPUS,MEMORY").out,
        cli.ok("gpu", "list", "--columns", "HOST,DEVICE,MODEL,STATE").out,
    ]
    return [" ".join(row.split()) for text in listed for row in text.splitlines() if "good" in row]
