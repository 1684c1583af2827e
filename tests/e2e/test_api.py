"""The HTTP API as its users meet it: the command line's answers, errors and exit statuses."""

from __future__ import annotations

import re
import stat
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from tests.apiserver import ApiServer, UnixHttp, serving_api
from tests.e2e.support import host, new_cli, vm
from vgpumgr.api.server import END_S

NAMES = ["desk-a", "desk-b"]


@pytest.fixture(scope="module")
def api() -> Iterator[ApiServer]:
    with new_cli() as cli:
        cli.sim_up(host("h1", ("T4", 2)))
        cli.ok("apply", "-f", cli.documents(*(vm(name, "T4-4Q") for name in NAMES)))
        with serving_api(cli) as server:
            yield server


def without_times(text: str) -> str:
    return re.sub(
        r"\d+s ago|\b\d+s\b|\"seen_s\": [\d.]+|operation [0-9a-f]{8}|[0-9a-f-]{36}", "…", text
    )


@pytest.mark.mainline
@pytest.mark.parametrize(
    "command",
    ["vm list", "vm list -o json", "vm show desk-a", "vm show nope", "vm list -l a=b",
     "vm xml desk-a", "vm list -o name", "vm start desk-a desk-a", "vm reboot nope"],
)  # fmt: skip
def test_a_command_at_a_server_is_the_command(api: ApiServer, command: str) -> None:
    there, here = api(*command.split()), api.cli(*command.split())
    assert (there.code, without_times(there.out), without_times(there.err)) == (
        here.code,
        without_times(here.out),
        without_times(here.err),
    )


@pytest.mark.mainline
def test_a_change_is_an_operation_that_can_be_waited_for(api: ApiServer) -> None:
    begun = api.ask("POST", "/v1/vms:stop", {"names": NAMES, "force": True})
    assert begun.status == 202
    where = begun.headers["location"]
    assert where == f"/v1/operations/{begun.body['name']}"
    ended = api.ask("GET", f"{where}?wait=30s").body
    assert (ended["done"], ended["state"]) == (True, "done")
    assert [vm["state"] for vm in ended["response"]["vms"]] == ["done", "done"]
    at_once = api.ask("POST", "/v1/vms:start?wait=30s", {"names": NAMES})
    assert (at_once.status, at_once.body["kind"]) == (200, "Outcome")


@pytest.mark.mainline
def test_events_are_replayed_from_the_cursor(api: ApiServer) -> None:
    stop = {"names": ["desk-a"], "force": True}
    api.ask("POST", "/v1/vms:stop?wait=30s", stop)
    first = list(islice(api.events(after=0), 5))
    assert [seq for seq, _ in first] == sorted({seq for seq, _ in first})
    again = list(islice(api.events(after=first[1][0]), 3))
    assert again == first[2:]
    api.ask("POST", "/v1/vms:start?wait=30s", {"names": ["desk-a"]})


@pytest.mark.mainline
@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("GET", "/v1/vms/nope", None, 404, "not-found"),
        ("GET", "/v1/nothing", None, 404, "not-found"),
        ("GET", "/v1/vms?nothing=1", None, 422, "usage"),
        ("GET", "/v1/vms?labels=x", None, 422, "usage"),
        ("POST", "/v1/vms:stop", {"names": []}, 422, "usage"),
        ("POST", "/v1/vms:stop", {"names": ["a"], "more": 1}, 422, "usage"),
        ("POST", "/v1/vms:stop", b"\xff\xfe", 422, "usage"),
        ("POST", "/v1/vms:stop", {"names": ["nope"]}, 404, "not-found"),
        ("DELETE", "/v1/vms", None, 405, "usage"),
    ],
)
def test_bad_input_is_a_problem(
    api: ApiServer, method: str, path: str, body: object, status: int, code: str
) -> None:
    answer = api.ask(method, path, body)
    assert (answer.status, answer.body["code"]) == (status, code)
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.body["title"]


@pytest.mark.mainline
def test_the_socket_is_for_its_owner_and_group(api: ApiServer) -> None:
    assert stat.S_IMODE(Path(api.path).stat().st_mode) == 0o660
    assert api.cli("api").code == 4  # another one does not take its place
    assert api.ask("GET", "/v1/vms").status == 200


@pytest.mark.thorough
def test_a_list_comes_in_pages(api: ApiServer) -> None:
    first = api.ask("GET", "/v1/vms?page_size=1").body
    second = api.ask("GET", f"/v1/vms?page_size=1&page_after={first['next_page']}").body
    assert [each["name"] for page in (first, second) for each in page["items"]] == NAMES
    assert "next_page" not in second


def test_a_server_that_ends_waits_for_no_stream(api: ApiServer) -> None:
    streams = [UnixHttp(api.path) for _ in range(3)]
    for each, path in zip(streams, ("/v1/events", "/live", "/live/map"), strict=True):
        each.request("GET", path)
        assert each.getresponse().status == 200
    began = time.monotonic()
    ended = api.end()
    for each in streams:
        each.close()
    api.start()
    assert (ended.code, ended.out) == (0, "")
    assert time.monotonic() - began < END_S / 2
