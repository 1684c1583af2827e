"""VDI pools as an operator types them: applied, worked by `serve`, given to users, deleted."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.support import DEADLINE_S, Cli, host, names, new_cli, pool, until

IMAGES = ["cad@1.qcow2", "cad@2.qcow2"]


@pytest.fixture
def cli() -> Iterator[Cli]:
    with new_cli() as made:
        made.sim_up(host("h1", ("T4", 1), images=IMAGES))
        yield made


def asked(**more: Any) -> dict[str, Any]:
    """A pool whose updates are through after a second."""
    return pool(**{"spare": 1, "max": 3, "update": {"soak": "1s"}, **more})


def serve(cli: Cli) -> str:
    """One turn of every host, of the queue and of the pools; what it told."""
    return cli("serve", "--once").out


def states(cli: Cli) -> dict[str, str]:
    return {each["name"]: each["state"] for each in shown(cli)["items"]}


def shown(cli: Cli) -> Any:
    return cli.ok("pool", "show", "cad", "-o", "json").json


def assign(cli: Cli, user: str, *more: str) -> Any:
    return cli.ok("pool", "assign", "cad", user, "--group", "staff", "-o", "json", *more).json


def test_a_pool_is_applied_worked_used_updated_and_deleted(cli: Cli) -> None:
    file = cli.documents(asked())
    assert cli.ok("apply", "-f", file, "--dry-run").out.startswith("create  pool cad")
    assert cli.items("pool", "list") == []
    cli.ok("apply", "-f", file)
    cli.ok("diff", "-f", file)
    assert "desktop-ready" in serve(cli)
    assert states(cli) == {"cad-01": "ready"}
    assert names(cli.items("vm", "list")) == ["cad-01"]
    assert cli.ok("pool", "watch", "cad", "--changes", "1").out == "cad-01: ready on cad@1\n"
    watch = cli.process("pool", "watch", "cad")
    assert watch.stdout is not None and watch.stdout.readline() == "cad-01: ready on cad@1\n"
    watch.send_signal(signal.SIGINT)
    assert watch.communicate(timeout=DEADLINE_S) == ("", "") and watch.returncode == 0

    assert assign(cli, "ada")["desktop"] == "cad-01"
    assert "is a desktop of pool cad" in cli.fails(4, "vm", "delete", "cad-01", "-y").err
    waits = assign(cli, "bob")
    assert (waits["desktop"], waits["waits"]) == (None, "no desktop is ready")
    assert "bob: no desktop is ready" in cli.ok("pool", "explain", "cad").out
    assert "not entitled" in cli.fails(8, "pool", "assign", "cad", "eve").err
    assert "Waiting:     bob" in cli.ok("pool", "show", "cad").out
    late = cli.fails(9, "pool", "assign", "cad", "bob", "--group", "staff", "--wait", "1s")
    assert "pool explain cad" in late.err
    assert "not a duration" in cli.fails(2, "pool", "assign", "cad", "bob", "--wait", "soon").err
    assert "is not a name" in cli.fails(2, "pool", "assign", "cad", "a\nb").err
    assert "is not a size" in cli.fails(2, "pool", "scale", "cad", "--min", "9").err
    assert "is not in the range" in cli.fails(2, "pool", "scale", "cad", "--max", "9" * 20).err
    assert "ada has cad-01" in cli.fails(4, "pool", "assign", "cad", "ada", "--group", "staff").err
    serve(cli)
    assert {each["user"] for each in shown(cli)["items"]} == {"ada", "bob", None}
    assert [each["user"] for each in cli.items("pool", "history", "cad")][-1] == "ada"
    assert "did you mean cad?" in cli.fails(3, "pool", "show", "cat").err

    nowhere = cli("pool", "push-image", "cad", "cad@9")
    assert nowhere.code == 3, f"it was taken: {nowhere.err}"
    assert "image cad@9 is on no host" in nowhere.err
    cli.ok("sim", "inject", "h1", "refuse", "domains.start", "EIO", "1000")
    cli.ok("pool", "push-image", "cad", "cad@2")
    serve(cli)
    serve(cli)
    cli.ok("sim", "inject", "h1", "clear")
    item = shown(cli)
    assert (item["image"], item["rollout"]["phase"]) == ("cad@1", "back")
    assert {each["user"] for each in item["items"]} >= {"ada", "bob"}

    assert "in use" in cli.fails(4, "pool", "delete", "cad", "-y").err
    for user in ("ada", "bob"):
        cli.ok("pool", "release", "cad", user)
    cli.ok("delete", "-f", file, "-y")
    serve(cli)
    serve(cli)
    assert cli.items("pool", "list") == cli.items("vm", "list") == []
    assert cli.ok("store", "check").code == cli.ok("drift").code == 0


def test_what_a_killed_serve_began_the_next_one_ends(cli: Cli) -> None:
    cli.ok("sim", "inject", "h1", "latency", "0.05")
    cli.ok("apply", "-f", cli.documents(asked(spare=3)))
    serving = cli.process("serve")
    until(lambda: "creating" in states(cli).values(), "a desktop that is being made")
    serving.kill()
    serving.communicate()
    cli.ok("sim", "inject", "h1", "clear")
    serve(cli)
    serve(cli)
    assert states(cli) == dict.fromkeys(("cad-01", "cad-02", "cad-03"), "ready")
    assert cli.ok("store", "check").code == 0
    assert cli.ok("drift").code == 0


@pytest.mark.parametrize(
    ("more", "code", "said"),
    [
        ({"min": 4}, 2, "4 is more than max: 3"),
        ({"entitlement": {}}, 2, "entitles nobody"),
        ({"image": "cad"}, 2, "not an image with its version"),
        ({"names": "desk"}, 2, "not a pattern of names"),
        ({"names": "lab-{n}"}, 4, "lab-1 exists already"),
        ({"gpus": [{"profile": "A40-8Q"}]}, 5, "A40 could"),
        ({"tenant": "small", "min": 3}, 5, "tenant small may hold 2"),
        (
            {
                "schedules": [
                    {"days": ["mon"], "from": "8:00", "to": "12:00", "min": 1, "spare": 0},
                    {"days": ["mon-fri"], "from": "11:00", "to": "13:00", "min": 2, "spare": 0},
                ]
            },
            2,
            "overlap",
        ),
    ],
)
def test_a_pool_that_cannot_be_is_refused(
    refusing: Cli, more: dict[str, Any], code: int, said: str
) -> None:
    found = refusing.fails(code, "apply", "-f", refusing.documents(asked(**more)))
    assert said in found.err
    assert refusing.items("pool", "list") == []


@pytest.fixture(scope="module")
def refusing() -> Iterator[Cli]:
    with new_cli() as made:
        made.sim_up(host("h1", ("T4", 1), images=IMAGES))
        lab = {"name": "lab-1", "vcpus": 1, "memory": "1GiB", "gpus": [{"profile": "T4-1Q"}]}
        made.ok("apply", "-f", made.documents(lab))
        made.ok("quota", "set", "small", "--vms", "2")
        yield made
