"""The ``migration:`` block of a Host document."""

from __future__ import annotations

import pytest

from vgpumgr.model.domain import MigrationAddress
from vgpumgr.model.errors import UsageError
from vgpumgr.spec import load

HOST = "apiVersion: vgpumgr/v1\nkind: Host\nname: h2\naddress: root@h2\n"


def read(block: str) -> MigrationAddress | None:
    return load(f"{HOST}migration: {block}\n", "hosts.yaml").hosts[0].migration


def test_a_host_without_one_takes_no_running_vm() -> None:
    assert load(HOST, "hosts.yaml").hosts[0].migration is None


def test_tls_is_on_unless_said_otherwise() -> None:
    assert read("{address: 10.77.0.12}") == MigrationAddress(address="10.77.0.12", tls=True)


def test_all_of_it() -> None:
    found = read("{address: h2.lan, tls: false, tls_name: gpu2, bandwidth: 500MiB}")
    assert found == MigrationAddress(
        address="h2.lan", tls=False, tls_name="gpu2", bandwidth_mib_s=500
    )


@pytest.mark.parametrize(
    ("block", "words"),
    [
        ("{}", "migration.address"),
        ("{address: ''}", "address"),
        ("{address: 'tcp://10.0.0.1'}", "not a host name"),
        ("{address: h2, tls: yes please}", "tls"),
        ("{address: h2, bandwidth: 500}", "not a size"),
        ("{address: h2, bandwidth: 2TiB}", "1TiB"),
        ("{address: h2, port: 1}", "port"),
    ],
)
def test_what_is_wrong_is_named(block: str, words: str) -> None:
    with pytest.raises(UsageError) as raised:
        read(block)
    assert words in f"{raised.value.message} {raised.value.why}"
