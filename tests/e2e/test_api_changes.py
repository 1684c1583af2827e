"""Plans, changes, pools, quotas, the queue and bookings at a server: as beside the ledger."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.apiserver import ApiServer, serving_api
from tests.e2e.support import host, new_cli, pool, vm
from tests.e2e.test_api import without_times


@pytest.fixture(scope="module")
def api() -> Iterator[ApiServer]:
    with new_cli() as cli:
        cli.sim_up(host("h1", ("T4", 2)), host("h2", ("A40", 1)))
        cli.ok("apply", "-f", cli.documents(vm("desk-a", "T4-4Q"), vm("desk-b", "T4-4Q")))
        cli.documents(vm("desk-a", "T4-4Q"), vm("desk-b", "T4-8Q"), name="changed.yaml")
        cli.documents(vm("big", "H100-80Q"), name="unknown.yaml")
        cli.documents(vm("many", "T4-16Q", replicas=5), name="many.yaml")
        cli.documents(pool(max=4), name="pool.yaml")
        cli.documents(pool(max=4), vm("beside", "T4-4Q"), name="both.yaml")
        cli.file(b"name: \xff\n", "bytes.yaml")
        with serving_api(cli) as server:
            yield server


@pytest.mark.parametrize(
    "command",
    [
        pytest.param("plan -f changed.yaml", marks=pytest.mark.mainline),
        pytest.param("apply -f both.yaml --dry-run", marks=pytest.mark.mainline),
        pytest.param("apply -f unknown.yaml -o json", marks=pytest.mark.mainline),
        "plan -f many.yaml", "diff -f changed.yaml -o json", "apply -f changed.yaml",
        "apply -f many.yaml", "apply -f bytes.yaml", "apply -f missing.yaml",
        "apply -f pool.yaml --dry-run", "delete -f pool.yaml -y", "delete -f changed.yaml -y",
        "vm create new --profile T4-4Q --dry-run", "vm create desk-a --profile T4-4Q",
        "vm create new --profile nope", "vm delete desk-a nope -y",
        "vm migrate desk-a --to h2 --dry-run", "vm migrate desk-a --to h2",
        "explain -f many.yaml", "explain desk-a", "capacity", "capacity --stranded",
        "capacity T4-99Q", "queue list", "queue show nope", "queue cancel nope",
        "quota set blue --gpus 2 --profile T4-4Q=1", "quota set blue --profile nope=1",
        "quota list -o json", "quota delete green", "pool list", "pool show nope",
        "pool assign nope ada", "booking list", "booking delete nope",
        "operation list", "operation show nope", "operation undo nope", "store check",
    ],
)  # fmt: skip
def test_a_command_at_a_server_is_the_command(
    api: ApiServer, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(api.cli.folder)
    there = api(*command.split())
    if command == "store check":
        assert (there.code, "cannot be carried out at a server" in there.err) == (2, True)
        return
    here = api.cli(*command.split())
    assert (there.code, without_times(there.out), without_times(there.err)) == (
        here.code,
        without_times(here.out),
        without_times(here.err),
    )


@pytest.mark.mainline
def test_the_client_sees_the_plan_while_it_is_carried_out(api: ApiServer) -> None:
    text = json.dumps({"apiVersion": "vgpumgr/v1", "kind": "VM", "name": "seen", "gpus": []})
    begun = api.ask("POST", "/v1/vms:apply", {"text": text})
    assert (begun.status, begun.body["plan"]["actions"][0]["vm"]) == (202, "seen")
    ended = api.ask("GET", f"{begun.headers['location']}?wait=30s").body
    assert (ended["response"]["kind"], ended["response"]["changes"]) == ("Apply", 1)


@pytest.mark.mainline
def test_the_server_opens_no_file_that_a_caller_names(api: ApiServer) -> None:
    answer = api.ask("POST", "/v1/vms:plan", {"text": "", "source": "/etc/passwd"})
    assert (answer.status, answer.body["message"]) == (400, "/etc/passwd names no VM")


@pytest.mark.thorough
def test_pools_are_applied_at_their_own_endpoint(api: ApiServer) -> None:
    text = json.dumps({"apiVersion": "vgpumgr/v1", **pool(max=4)})
    answer = api.ask("POST", "/v1/vms:apply", {"text": text})
    assert (answer.status, answer.body["code"]) == (400, "usage.pools")
    assert api.ask("POST", "/v1/pools:plan", {"text": text}).body["changes"] == 1
