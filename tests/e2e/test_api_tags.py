"""What was read is what is changed: ETags of single things, and changes that must name them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.apiserver import ApiServer, serving_api
from tests.e2e.support import host, new_cli

pytestmark = pytest.mark.mainline
MIGRATION = "/v1/hosts/h1/migration"
ADDRESS = {"address": "10.0.0.1"}


@pytest.fixture(scope="module")
def api() -> Iterator[ApiServer]:
    with new_cli() as cli:
        cli.sim_up(host("h1", ("T4", 1)))
        with serving_api(cli) as server:
            yield server


def tag(api: ApiServer) -> str:
    return api.ask("GET", "/v1/hosts/h1").headers["etag"]


def test_a_change_says_what_it_takes_the_thing_for(api: ApiServer) -> None:
    missing = api.ask("PUT", MIGRATION, ADDRESS)
    assert (missing.status, missing.body["code"]) == (428, "precondition-required")
    seen = tag(api)
    assert api.ask("PUT", MIGRATION, ADDRESS, {"If-Match": seen}).status == 200
    stale = api.ask("DELETE", MIGRATION, headers={"If-Match": seen})
    assert (stale.status, stale.body["etag"]) == (412, tag(api))
    assert api.ask("DELETE", MIGRATION, headers={"If-Match": tag(api)}).status == 200
    assert api.ask("DELETE", MIGRATION, headers={"If-Match": "*"}).status == 200


def test_what_is_as_it_was_seen_is_not_sent_again(api: ApiServer) -> None:
    seen = tag(api)
    again = api.ask("GET", "/v1/hosts/h1", headers={"If-None-Match": seen})
    assert (again.status, again.body) == (304, None)


def test_what_there_is_not_is_not_found(api: ApiServer) -> None:
    assert api.ask("DELETE", "/v1/pools/nope", headers={"If-Match": "*"}).status == 404
    assert api.ask("DELETE", "/v1/pools/nope").status == 404


def test_a_quota_has_a_tag_of_what_it_says(api: ApiServer) -> None:
    made = api.ask("PATCH", "/v1/quotas/cad", {"vms": 3})
    assert made.status == 200, made.body
    assert api.ask("PATCH", "/v1/quotas/cad", {"vms": 4}).status == 428
    assert api.ask("DELETE", "/v1/quotas/cad", headers={"If-Match": "*"}).status == 200


@pytest.mark.thorough
def test_commands_at_a_server_take_things_as_they_are(api: ApiServer) -> None:
    for verb in (
        ("host", "migration", "h1", "--address", "10.0.0.2"),
        ("quota", "set", "a", "--vms", "1"),
    ):
        ran = api(*verb)
        assert ran.code == 0, ran.err
    assert api("quota", "set", "a", "--vms", "2").code == 0
