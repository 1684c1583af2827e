"""What the playbook is told of each host."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from vgpumgr.app.bootstrap.variables import Sent, SetupRequest, Variables, of_host
from vgpumgr.hosts.helper.helper_launch import helper_version
from vgpumgr.model.domain import MigrationAddress
from vgpumgr.model.errors import UsageError
from vgpumgr.model.host import HostRecord

SENT = Sent(bundle=Path("b"), installer=Path("i"), ca_folder=Path("ca"), public_key="ssh-ed25519 A")
GPU1 = HostRecord(name="gpu1", address="gpuadm@gpu1.example")


def told(record: HostRecord = GPU1, user: str = "gpuadm", **wish: object) -> Variables:
    return of_host(record, "10.0.0.1", user, SetupRequest(**wish), SENT)  # type: ignore[arg-type]


def test_a_user_of_our_own_with_our_key_and_one_sudo_rule() -> None:
    found = told()
    assert (found["helper_user"], found["helper_user_managed"]) == ("vgpumgr", True)
    assert found["helper_authorized_keys"] == ["ssh-ed25519 A"]
    order = found["helper_order"]
    assert isinstance(order, dict)
    assert order["sudoers_line"].startswith("vgpumgr ALL=(root) NOPASSWD: ")
    assert found["helper_version"] == helper_version()


def test_the_given_user_can_stay_and_is_not_touched() -> None:
    found = told(keep_user=True)
    assert (found["helper_user"], found["helper_user_managed"]) == ("gpuadm", False)
    assert told(user="vgpumgr")["helper_user_managed"] is False


def test_root_needs_no_rule() -> None:
    order = told(user="root", keep_user=True)["helper_order"]
    assert isinstance(order, dict) and order["sudoers_line"] == ""
    assert told(user="root")["ansible_user"] == "root"


def test_a_certificate_is_for_every_name_by_which_other_hosts_may_come() -> None:
    assert told()["migration_tls_names"] == ["gpu1", "10.0.0.1"]
    to = MigrationAddress(address="10.77.0.11", tls_name="gpu1.lan")
    names = told(replace(GPU1, migration=to))["migration_tls_names"]
    assert names == ["gpu1", "10.77.0.11", "gpu1.lan", "10.0.0.1"]


@pytest.mark.parametrize("name", ["x,DNS:gpu2", "x\nbasicConstraints=CA:TRUE", "{{ x }}", "a b"])
def test_no_name_can_say_more_than_a_name(name: str) -> None:
    with pytest.raises(UsageError, match="cannot stand in a certificate"):
        told(replace(GPU1, migration=MigrationAddress(address="10.0.0.1", tls_name=name)))


def test_this_machine_is_never_rebooted() -> None:
    here = told(HostRecord(name="here", address="local"), "root", keep_user=True)
    assert here["vgpumgr_reboot"] is False and here["ansible_connection"] == "local"
    assert "vgpumgr_reboot" not in told()
