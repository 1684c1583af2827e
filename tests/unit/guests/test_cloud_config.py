"""Sources of cloud-config become one by rules, and what cloud-init would not say is said."""

from __future__ import annotations

import re

import pytest
import yaml

from vgpumgr import guests
from vgpumgr.guests import cloud_config
from vgpumgr.guests.cloud_config import CloudConfigError, merged, problems, read_user_data
from vgpumgr.model.guest import ChosenProfile, GuestSpec

FACTS = {"name": "a", "host": "h1", "tenant": "t", "driver_branch": "550", "last_gpu": "0"}


def made(*chosen: ChosenProfile, own: str | None = None, **settings: str) -> dict:
    guest = GuestSpec(profiles=chosen, **settings)
    return yaml.safe_load(guests.user_data(guest, "debian-12", FACTS, own))


def test_lists_are_appended_once_and_mappings_merged():
    whole = merged(
        [
            ("a", {"packages": ["x", "y"], "apt": {"sources": {"a": {"source": "deb a"}}}}),
            ("b", {"packages": ["y", "z"], "apt": {"sources": {"b": {"source": "deb b"}}}}),
        ]
    )
    assert whole["packages"] == ["x", "y", "z"]
    assert sorted(whole["apt"]["sources"]) == ["a", "b"]


@pytest.mark.parametrize(
    "one, other, says",
    [
        ({"locale": "de"}, {"locale": "fr"}, "locale is said by one and, with another value, by"),
        (
            {"apt": {"sources": {"a": {"source": "x"}}}},
            {"apt": {"sources": {"a": {"source": "y"}}}},
            "apt.sources.a.source is said by one",
        ),
        (
            {"write_files": [{"path": "/etc/a", "content": "1"}]},
            {"write_files": [{"path": "/etc/a", "content": "2"}]},
            "/etc/a of write_files is said by one and, otherwise, by other",
        ),
        (
            {"users": [{"name": "ada", "shell": "/bin/sh"}]},
            {"users": [{"name": "ada"}]},
            "ada of users is said by one",
        ),
        ({"packages": ["a"]}, {"packages": "a"}, "packages is said by one"),
    ],
)
def test_what_two_sources_have_otherwise_is_refused_with_both_names(one, other, says):
    with pytest.raises(CloudConfigError, match=re.escape(says)):
        merged([("one", one), ("other", other)])
    assert merged([("one", one), ("other", one)])


@pytest.mark.parametrize(
    "text, says",
    [
        ("#!/bin/sh\ntrue\n", "begins with #cloud-config"),
        ("", "begins with #cloud-config"),
        ("#cloud-config\na: [\n", "is no YAML: line"),
        ("#cloud-config\n- a\n", "is no mapping"),
        ("#cloud-config\n1: a\n", "is no mapping"),
    ],
)
def test_user_data_that_cannot_be_merged_says_why(text, says):
    with pytest.raises(CloudConfigError, match=says):
        read_user_data(text)


def test_a_key_that_cloud_init_would_ignore_is_named_with_the_one_that_was_meant():
    assert problems({"run_cmd": [["true"]]}) == ["run_cmd is no key of cloud-config: runcmd?"]
    assert problems({"packages": {"a": 1}}) == ["packages takes a list"]
    assert problems({"package_update": True, "packages": ["a"]}) == []


def test_the_known_keys_are_of_known_kinds():
    kinds = {kind for each in cloud_config.known_keys().values() for kind in each}
    assert kinds <= set(cloud_config._TYPES)


def test_the_vms_own_user_data_comes_last():
    whole = made(ChosenProfile(name="docker"), own="#cloud-config\nruncmd: [[own]]\n")
    assert whole["runcmd"][-1] == ["own"]
    assert "docker.io" in whole["packages"]


def test_a_secret_is_in_the_text_and_never_in_a_check():
    guest = GuestSpec(
        profiles=(ChosenProfile(name="nvidia-guest-driver", parameters={"licence_token": "lic"}),),
        user="ada",
        password="pw",
    )
    text = guests.user_data(guest, "debian-12", FACTS, None, lambda name: f"value of {name}")
    assert "value of lic" in text
    assert "value of pw" in text
    assert "value of" not in repr(guests.checks(guest, "debian-12", FACTS))
    assert guests.secrets_of(guest, "debian-12") == ("pw", "lic")


def test_a_value_with_yaml_in_it_stays_a_value():
    nasty = 'x"\nruncmd: [[rm, -rf, /]]\n'
    guest = GuestSpec(profiles=(ChosenProfile(name="jupyterlab", parameters={"token": "t"}),))
    whole = yaml.safe_load(guests.user_data(guest, "debian-12", FACTS, None, lambda _: nasty))
    assert ["rm", "-rf", "/"] not in whole["runcmd"]
    assert any(each.get("content") == nasty for each in whole["write_files"])


def test_a_mount_of_each_file_system_has_what_it_takes():
    nfs = {"source": "nfs.lan:/data", "target": "/data"}
    ceph = {"source": "mon1:/", "target": "/ceph", "type": "ceph", "key": "ceph-key"}
    whole = made(
        ChosenProfile(name="data-mounts", parameters=nfs),
        ChosenProfile(name="data-mounts", parameters=ceph),
    )
    assert [each[:3] for each in whole["mounts"]] == [
        ["nfs.lan:/data", "/data", "nfs"],
        ["mon1:/", "/ceph", "ceph"],
    ]
    assert {"nfs-common", "ceph-common"} <= set(whole["packages"])
    assert "secretfile=/etc/ceph/mount.key" in whole["mounts"][1][3]
