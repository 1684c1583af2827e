"""Domains that other programs made are listed as foreign, and nothing of ours touches them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.support import Cli, new_cli, sim_host

FILES = sorted(Path("tests/cases/domains").glob("virt-install-*.xml"))


@pytest.fixture
def cli() -> Iterator[Cli]:
    with new_cli() as found:
        found.sim_up({"name": "h1", "gpus": [{"board": "T4"}]})
        yield found


def test_what_virt_install_made_is_foreign_and_stays(cli: Cli) -> None:
    assert len(FILES) >= 5
    with sim_host(cli, "h1") as host:
        for file in FILES:
            host.domains.define(file.read_text())
        before = host.domains.list()
    listed = cli.items("vm", "list", "--refresh")
    assert len(listed) == len(FILES)
    assert {each["owner"] for each in listed} == {"foreign"}
    for name in (each["name"] for each in listed):
        cli.fails(3, "vm", "delete", name, "-y")
        cli.fails(3, "vm", "start", name)
    with sim_host(cli, "h1") as host:
        assert host.domains.list() == before
