"""Commands on hosts, GPUs and layouts at a server: the same output and exit status as without."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.apiserver import ApiServer, serving_api
from tests.e2e.support import host, new_cli, vm


@pytest.fixture(scope="module")
def api() -> Iterator[ApiServer]:
    with new_cli() as cli:
        cli.sim_up(host("h1", ("T4", 2)), host("h2", ("H100-SXM5-80GB", 1)), host("h3"))
        cli.ok("apply", "-f", cli.documents(vm("desk", "T4-4Q")))
        with serving_api(cli) as server:
            yield server


def without_times(text: str) -> str:
    return re.sub(
        r"\d+s ago|\b\d+s\b|\"seen_s\": [\d.]+|operation [0-9a-f]{8}|20\d\d-\S+", "…", text
    )


def alike(api: ApiServer, command: str) -> None:
    there, here = api(*command.split()), api.cli(*command.split())
    assert (there.code, without_times(there.out), without_times(there.err)) == (
        here.code,
        without_times(here.out),
        without_times(here.err),
    )


@pytest.mark.mainline
@pytest.mark.parametrize("command", ["map", "gpu list -o wide"])
def test_a_list_at_a_server_is_the_list(api: ApiServer, command: str) -> None:
    alike(api, command)


READS = """\
map -o json
map --refresh
gpu list
gpu list -o json
gpu list --host h1 -o csv
gpu list --host nope
gpu show h1/0000:41:00.0
gpu show h1/nope
gpu show nope
gpu list --refresh
allocation list
allocation list --released -o json
layout show
layout show h2 -o json
layout show nope
""".splitlines()


@pytest.mark.parametrize("command", READS)
def test_a_read_at_a_server_is_the_read(api: ApiServer, command: str) -> None:
    alike(api, command)
