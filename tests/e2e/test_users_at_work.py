"""Users at work on desktops: named, and cut off only where that is allowed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.support import Cli, host, new_cli, pool

POOL = pool(
    entitlement={"users": ["ada", "bob", "eve"]}, min=6, spare=3, max=6, policy="breadth-first"
)
BIG = ("--for", "T4-16Q", "--count")


@pytest.fixture
def cli() -> Iterator[Cli]:
    """Six desktops on eight GPUs of four hosts; the first three are ada's, bob's and eve's."""
    with new_cli() as made:
        names = [f"h{number}" for number in range(1, 5)]
        made.sim_up(*(host(name, ("T4", 2), images=["cad@1.qcow2"]) for name in names))
        made.ok("apply", "-f", made.documents(POOL))
        made.ok("serve", "--once")
        for user in ("ada", "bob", "eve"):
            made.ok("pool", "assign", "cad", user)
        yield made


def power(cli: Cli, name: str) -> str:
    return next(each["power"] for each in cli.items("vm", "list") if each["name"] == name)


def gpu(cli: Cli, name: str) -> str:
    return str(cli.ok("vm", "show", name, "-o", "json").json["gpus"][0]["gpu"])


def place(cli: Cli, name: str) -> tuple[str, str]:
    return str(cli.ok("vm", "show", name, "-o", "json").json["host"]), gpu(cli, name)


@pytest.mark.parametrize("verb", ["stop", "reboot"])
def test_a_desktop_that_somebody_is_on_is_not_stopped(cli: Cli, verb: str) -> None:
    refused = cli("vm", verb, "cad-01", "-o", "json")
    assert refused.code == 4
    assert "ada on cad-01" in refused.error["message"]
    assert f"vgpumgr vm {verb} cad-01 --with-users" in refused.error["next"]
    assert power(cli, "cad-01") == "running"
    done = cli.ok("vm", verb, "cad-01", "--with-users")
    assert "cut off: ada on cad-01" in done.out


def test_who_has_left_is_not_at_work_and_an_owner_neither(cli: Cli) -> None:
    cli.ok("pool", "release", "cad", "ada")
    cli.ok("vm", "stop", "cad-01")
    assert power(cli, "cad-01") == "shutoff"


def test_a_cold_drain_leaves_users_where_they_are(cli: Cli) -> None:
    where, _ = place(cli, "cad-01")
    planned = cli("host", "drain", where, "--cold", "--dry-run", "-o", "json")
    ada = next(each for each in planned.json["vms"] if each["name"] == "cad-01")
    assert ada["to"] is None
    assert (planned.code, ada["user"]) == (4, "ada")
    drained = cli.fails(4, "host", "drain", where, "--cold")
    assert "ada on cad-01" in drained.err
    assert f"vgpumgr host drain {where} --cold --with-users" in drained.err
    assert place(cli, "cad-01")[0] == where
    assert power(cli, "cad-01") == "running"
    assert "cad-01" in cli.fails(4, "host", "maintenance", where).err
    refused = cli.fails(4, "host", "maintenance", where, "-o", "json").error
    assert "at work: ada on cad-01" in refused["why"]
    assert refused["next"] == f"vgpumgr host drain {where}", "vm stop would cut ada off"
    forced = cli.ok("host", "drain", where, "--cold", "--with-users")
    assert "cut off: ada on cad-01" in forced.out
    assert place(cli, "cad-01")[0] != where


def test_a_cold_migration_needs_the_word_too(cli: Cli) -> None:
    where, _ = place(cli, "cad-01")
    to = next(name for name in ("h1", "h2") if name != where)
    refused = cli.fails(4, "vm", "migrate", "cad-01", "--to", to, "--cold")
    assert "ada is on it" in refused.err
    assert "--with-users" in refused.err
    assert place(cli, "cad-01")[0] == where
    cli.ok("vm", "migrate", "cad-01", "--to", to, "--cold", "--with-users")


def test_free_desktops_move_and_used_ones_stay(cli: Cli) -> None:
    used = {name: place(cli, name) for name in ("cad-01", "cad-02", "cad-03")}
    shown = cli.ok("defrag", "plan", *BIG, "5", "--allow-cold", "-o", "json").json
    assert {move["name"] for move in shown["moves"]} == {"cad-04", "cad-05", "cad-06"}
    cli.ok("defrag", "apply", *BIG, "5", "--allow-cold", "-y")
    assert {name: place(cli, name) for name in used} == used
    cli.ok("serve", "--once")
    assert cli.ok("pool", "show", "cad", "-o", "json").json["free"] == 3


def test_where_only_users_are_in_the_way_they_are_named(cli: Cli) -> None:
    refused = cli("defrag", "apply", *BIG, "6", "--allow-cold", "-y", "-o", "json")
    assert refused.code == 4
    assert "would be cut off" in refused.error["message"]
    assert "--with-users" in refused.error["next"]
    shown = cli.ok("defrag", "plan", *BIG, "6", "--allow-cold", "--with-users", "-o", "json").json
    assert [move["user"] for move in shown["moves"] if move["user"]]


def test_a_move_waits_until_its_user_has_logged_off(cli: Cli) -> None:
    done = cli.fails(7, "defrag", "apply", *BIG, "6", "--at-logoff", "-y")
    assert "wait for a logoff" in done.err
    [waits] = cli.items("defrag", "list")
    name, user, before = waits["name"], waits["user"], place(cli, waits["name"])
    assert f"when {user} logs off" in cli.ok("vm", "show", name).out
    assert f"{name} to {waits['host']} when {user} logs off" in cli.ok("pool", "show", "cad").out
    cli.ok("serve", "--once")
    assert place(cli, name) == before
    assert power(cli, name) == "running"
    cli.ok("pool", "release", "cad", user)
    cli.ok("serve", "--once")
    told = cli.ok("serve", "--once").out
    assert f"{name}: {user} has logged off" in told
    assert gpu(cli, name) != before[1]
    assert cli.items("defrag", "list") == []


def test_a_move_that_waits_is_cancelled(cli: Cli) -> None:
    cli.fails(7, "defrag", "apply", *BIG, "6", "--at-logoff", "-y")
    [waits] = cli.items("defrag", "list")
    assert "stays on" in cli.ok("defrag", "cancel", waits["name"]).err
    assert cli.items("defrag", "list") == []
    assert "no move of" in cli.fails(3, "defrag", "cancel", waits["name"]).err


def test_an_owner_s_desktop_moves_after_the_logoff() -> None:
    with new_cli() as cli:
        cli.sim_up(host("h1", ("T4", 3), images=["cad@1.qcow2"]))
        owned = {**POOL, "assignment": "dedicated", "min": 3, "spare": 0, "max": 3}
        cli.ok("apply", "-f", cli.documents(owned))
        cli.ok("serve", "--once")
        for user in ("ada", "bob", "eve"):
            cli.ok("pool", "assign", "cad", user)
        cli.fails(7, "defrag", "apply", *BIG, "1", "--at-logoff", "-y")
        [waits] = cli.items("defrag", "list")
        before = gpu(cli, waits["name"])
        cli.ok("pool", "release", "cad", waits["user"])
        assert "has logged off, it was moved" in cli.ok("serve", "--once").out
        assert gpu(cli, waits["name"]) != before
        assert power(cli, waits["name"]) == "running"
        assert cli.ok("drift").code == 0


def test_serve_defragments_by_itself_where_that_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three desktops on four GPUs, two of them used, and who comes next wants whole GPUs."""
    monkeypatch.setenv("VGPUMGR_MIX", "[{gpus: [{profile: T4-16Q}]}]")
    with new_cli() as cli:
        cli.sim_up(*(host(name, ("T4", 2), images=["cad@1.qcow2"]) for name in ("h1", "h2")))
        cli.ok("apply", "-f", cli.documents({**POOL, "min": 3, "spare": 1}))
        cli.ok("serve", "--once")
        for user in ("ada", "bob"):
            cli.ok("pool", "assign", "cad", user)
        before = {name: gpu(cli, name) for name in ("cad-01", "cad-02", "cad-03")}
        assert "fragmented" in cli.ok("serve", "--once").out
        assert "vgpumgr defrag plan" in cli("doctor").out
        assert {name: gpu(cli, name) for name in before} == before, "it asks"
        monkeypatch.setenv("VGPUMGR_DEFRAG_MODE", "automatic")
        assert "cad-03 was moved" in cli.ok("serve", "--once").out
        after = {name: gpu(cli, name) for name in before}
        assert after["cad-03"] != before["cad-03"]
        assert (after["cad-01"], after["cad-02"]) == (before["cad-01"], before["cad-02"])
        assert [each["user"] for each in cli.items("defrag", "list")] in (["ada"], ["bob"])
        monkeypatch.setenv("VGPUMGR_DEFRAG_MODE", "never")
        assert "ask or automatic" in cli.fails(2, "map").err
