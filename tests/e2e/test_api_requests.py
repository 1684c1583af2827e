"""Requests that come again, and whose they are: idempotency keys, tokens, permissions."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.apiserver import Answer, ApiServer, serving_api
from tests.e2e.support import host, new_cli, vm

pytestmark = pytest.mark.mainline
STOP, START = "/v1/vms:stop", "/v1/vms:start"
ONE = {"names": ["desk-a"], "force": True}


@pytest.fixture(scope="module")
def api() -> Iterator[ApiServer]:
    with new_cli() as cli:
        cli.sim_up(host("h1", ("T4", 2)))
        cli.ok("apply", "-f", cli.documents(vm("desk-a", "T4-4Q"), vm("desk-b", "T4-4Q")))
        with serving_api(cli) as server:
            yield server


def operations(api: ApiServer) -> int:
    return len(api.ask("GET", "/v1/operations?limit=0").body["items"])


def token(api: ApiServer, role: str, *more: str) -> str:
    name = f"t{operations(api)}-{role}-{len(more)}"
    made = api.cli.ok("token", "create", name, "--role", role, *more, "-o", "json")
    return str(made.json["secret"])


def test_a_request_that_comes_again_is_carried_out_once(api: ApiServer) -> None:
    before, key = operations(api), {"Idempotency-Key": "stop-1"}
    answers: list[Answer] = []

    def ask() -> None:
        answers.append(api.ask("POST", f"{STOP}?wait=30s", ONE, key))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert operations(api) == before + 1
    named = {each.body.get("operation") or each.body["name"] for each in answers}
    assert len(named) == 1
    again = api.ask("POST", f"{STOP}?wait=30s", ONE, key)
    assert (again.status, again.body["operation"]) == (200, *named)


def test_a_key_of_another_request_is_refused(api: ApiServer) -> None:
    key = {"Idempotency-Key": "start-1"}
    assert api.ask("POST", f"{START}?wait=30s", {"names": ["desk-a"]}, key).status == 200
    other = api.ask("POST", START, {"names": ["desk-b"]}, key)
    assert (other.status, other.body["code"]) == (422, "idempotency")


def test_what_was_refused_before_anything_changed_may_come_again(api: ApiServer) -> None:
    key = {"Idempotency-Key": "nope-1"}
    for _ in range(2):
        assert api.ask("POST", START, {"names": ["nope"]}, key).status == 404


def test_the_end_of_a_request_survives_the_server(api: ApiServer) -> None:
    done = api.ask("POST", f"{STOP}?wait=30s", ONE, {"Idempotency-Key": "over-1"}).body
    api.kill()
    api.start()
    again = api.ask("POST", STOP, ONE, {"Idempotency-Key": "over-1"})
    assert (again.status, again.body) == (200, done)
    kept = api.ask("GET", f"/v1/operations/{done['operation']}").body
    assert (kept["done"], kept["response"]) == (True, done)


@pytest.mark.parametrize("shown", ["Bearer vgm_nothing", "Bearer ", "Basic YTpi", "Bearer \u00e9"])
def test_a_login_that_is_not_known_is_refused(api: ApiServer, shown: str) -> None:
    answer = api.ask("GET", "/v1/vms", headers={"Authorization": shown})
    assert (answer.status, answer.body["code"]) == (401, "not-permitted.login")
    assert answer.headers["www-authenticate"] == "Bearer"


def test_a_token_does_what_its_role_gives(api: ApiServer) -> None:
    shown = {"Authorization": f"Bearer {token(api, 'viewer')}"}
    assert api.ask("GET", "/v1/vms", headers=shown).status == 200
    refused = api.ask("POST", STOP, ONE, shown)
    assert (refused.status, refused.body["code"]) == (403, "not-permitted.role")
    assert "vm:power" in refused.body["detail"]


def test_a_revoked_token_is_refused_at_once(api: ApiServer) -> None:
    made = api.cli.ok("token", "create", "gone", "--role", "viewer", "-o", "json").json
    shown = {"Authorization": f"Bearer {made['secret']}"}
    assert api.ask("GET", "/v1/vms", headers=shown).status == 200
    api.cli.ok("token", "revoke", "gone")
    assert api.ask("GET", "/v1/vms", headers=shown).status == 401


def test_the_trail_names_who_asked_and_how(api: ApiServer) -> None:
    shown = {"Authorization": f"Bearer {token(api, 'operator')}"}
    done: dict[str, Any] = api.ask("POST", f"{START}?wait=30s", {"names": ["desk-a"]}, shown).body
    trail = api.cli.items("audit", "list", "--operation", done["operation"], "--limit", "0")
    assert {each["method"] for each in trail} == {"token"}
    assert all(each["credential"] for each in trail)
    assert "vgm_" not in json.dumps(trail)


@pytest.mark.thorough
@pytest.mark.parametrize("after_s", [0.4, 0.9])
def test_a_command_goes_on_while_the_server_is_killed_and_comes_back(
    api: ApiServer, after_s: float
) -> None:
    before = operations(api)
    killer = threading.Timer(after_s, lambda: (api.kill(), api.start()))
    killer.start()
    try:
        ran = api("vm", "stop", "desk-b", "--force")
    finally:
        killer.join()
    assert (ran.code, "1 of 1 done" in ran.out) == (0, True), ran.err
    assert operations(api) == before + 1
    api.cli.ok("vm", "start", "desk-b")
