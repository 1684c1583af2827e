"""The profiles that are shipped: whole, filled in, and refused where they do not fit."""

from __future__ import annotations

import json
import re

import pytest
import yaml
from lxml import etree

from vgpumgr import guests
from vgpumgr.guests.filled_profile import ProfileError
from vgpumgr.guests.guest_profiles import base
from vgpumgr.model.formats import TEMPLATE_NAMES
from vgpumgr.model.guest import ChosenProfile, GuestSpec
from vgpumgr.model.guest_system import GuestFamily
from vgpumgr.spec import SpecError, load

NAMES = guests.profiles()
HEAD = "apiVersion: vgpumgr/v1\nkind: VM\nname: a\ngpus: [{profile: A40-8Q}]\n"
FACTS = {"name": "a", "host": "h1", "tenant": "t", "driver_branch": "550", "last_gpu": "0"}


@pytest.mark.parametrize("name", NAMES)
def test_each_profile_is_whole(name):
    found = guests.profile(name)
    assert found.title
    assert found.checks
    assert set(found.systems) <= {"debian", "ubuntu", "windows"}
    assert bool(found.cloud_config) == ("debian" in found.systems)
    assert bool(found.first_boot) == ("windows" in found.systems)
    for about in found.parameters.values():
        assert about.text
        re.compile(about.pattern)
    for check in found.checks:
        assert check.run and check.says
        re.compile(check.expect)
        assert all(re.compile(cause.where) and cause.says for cause in check.causes)


@pytest.mark.parametrize("family", GuestFamily)
def test_the_base_of_each_family_reads_how_the_first_boot_ended(family):
    assert any(check.reads for check in base(family).checks)


def test_the_facts_of_a_vm_are_more_than_those_of_its_own_template():
    assert set(TEMPLATE_NAMES) <= set(guests.FACTS)


@pytest.mark.parametrize(
    "lines, says",
    [
        ("guest: {profiles: [dokcer]}", "did you mean docker"),
        ("guest: {profiles: [docker, docker]}", "guest.profiles[1]: docker is there twice"),
        ("guest: {profiles: [{name: docker, parameters: {a: b}}]}", "has no parameter a: known"),
        ("guest: {profiles: [{name: docker, parameters: {package: x}}]}", "docker.io or docker-ce"),
        ("guest: {profiles: [jupyterlab]}", "jupyterlab needs token"),
        ("guest: {profiles: [remote-desktop-windows]}", "is for windows, and the VM is debian-12"),
        ("os: windows-11\nguest: {user: a, password: p, profiles: [docker]}", "is for debian or"),
        ("gpus: []\nguest: {profiles: [nvidia-guest-driver]}", "is for a VM with gpus"),
        ("agent: false\nguest: {profiles: [docker]}", "guest is heard by it: leave agent out"),
        ("guest: {password: p}", "is of an account: add user"),
        ("guest: {user: 'a b'}", "user of linux is not the account"),
        ("os: windows-11\nguest: {profiles: []}", "windows needs password"),
        (
            "os: windows-10\nfirmware: bios\nguest: {user: a, password: p}",
            "firmware: the answer file partitions for UEFI",
        ),
        ("guest: {product_key: k}", "linux has no parameter product_key"),
        (
            "os: windows-11\nguest: {user: a, password: p}\ncloud_init: {user_data: x}",
            "windows-11 has no cloud-init",
        ),
        (
            "guest: {profiles: [docker]}\ncloud_init: {user_data: 'run'}",
            "cloud_init.user_data: begins with #cloud-config",
        ),
        (
            'guest: {time_zone: UTC}\ncloud_init: {user_data: "#cloud-config\\ntimezone: CET"}',
            "timezone is said by linux and, with another value, by cloud_init.user_data",
        ),
        (
            'guest: {user: ada}\ncloud_init: {user_data: "#cloud-config\\nrun_cmd: []"}',
            "run_cmd is no key of cloud-config: runcmd?",
        ),
    ],
)
def test_a_guest_that_cannot_be_made_is_refused(lines, says):
    text = HEAD if "gpus" not in lines else HEAD.rpartition("gpus")[0]
    with pytest.raises(SpecError) as error:
        load(f"{text}{lines}\n", "a.yaml")
    assert says in str(error.value)


def test_a_guest_has_an_agent_and_a_seed_without_being_told():
    [vm] = load(f"{HEAD}guest: {{profiles: [docker]}}\n", "a.yaml").vms
    assert vm.agent
    assert vm.cloud_init is not None


def test_a_repositorys_key_is_a_file_that_apt_reads_by_itself():
    """cloud-init would have gpg turn it into another form, and Debian's images have no gpg."""
    local = {"name": "lan", "uri": "http://lan/", "key": "-----BEGIN PGP"}
    chosen = ChosenProfile(name="package-repository", parameters=local)
    text = guests.user_data(GuestSpec(profiles=(chosen,)), "debian-12", FACTS, None)
    found = yaml.safe_load(text)
    [file] = found["write_files"]
    assert (file["path"], file["content"]) == ("/etc/apt/trusted.gpg.d/lan.asc", local["key"])
    assert found["apt"]["sources"] == {"lan": {"source": "deb http://lan/ ./ "}}


def test_a_language_is_one_that_debian_makes():
    """Its locale-gen passes over what it is asked for, and reads /etc/locale.gen."""
    text = guests.user_data(GuestSpec(locale="de_DE.UTF-8"), "debian-12", FACTS, None)
    [file] = yaml.safe_load(text)["write_files"]
    assert file == {"path": "/etc/locale.gen", "append": True, "content": "de_DE.UTF-8 UTF-8\n"}
    assert "write_files" not in yaml.safe_load(guests.user_data(GuestSpec(), "", FACTS, None))


def test_the_branch_of_the_guests_driver_is_the_hosts():
    guest = GuestSpec(profiles=(ChosenProfile(name="nvidia-guest-driver"),))
    assert "nvidia-driver-550-grid" in guests.user_data(guest, "debian-12", FACTS, None)
    with pytest.raises(ProfileError, match="nvidia-guest-driver needs branch"):
        guests.user_data(guest, "debian-12", {**FACTS, "driver_branch": ""}, None)


def windows(**more: str) -> dict[str, str]:
    guest = GuestSpec(
        user="ada", password="pw", locale="de-DE", time_zone="W. Europe Standard Time",
        profiles=(
            ChosenProfile(name="nvidia-guest-driver", parameters={"licence_token": "lic"}),
            ChosenProfile(name="remote-desktop-windows"),
        ),
        **more,
    )  # fmt: skip
    return guests.windows_files(guest, "windows-11", FACTS, lambda name: f"<{name}>&")


def test_the_answer_file_is_whole_xml_with_values_as_text():
    root = etree.fromstring(windows(product_key="key")["unattend.xml"].encode())
    ns = {"u": "urn:schemas-microsoft-com:unattend"}
    passes = [each.get("pass") for each in root.findall("u:settings", ns)]
    assert passes == ["windowsPE", "specialize", "oobeSystem"]
    values = {each.text for each in root.iterfind(".//u:Password/u:Value", ns)}
    assert values == {"<pw>&"}
    assert root.findtext(".//u:ProductKey/u:Key", namespaces=ns) == "<key>&"
    assert root.findtext(".//u:ComputerName", namespaces=ns) == "a"
    assert {each.text for each in root.iterfind(".//u:TimeZone", ns)} == {"W. Europe Standard Time"}
    paths = [each.text for each in root.iterfind(".//u:PathAndCredentials/u:Path", ns)]
    assert r"E:\viostor\w11\amd64" in paths
    assert not [each for each in root.iter() if not len(each) and not (each.text or "").strip()]


def test_without_a_product_key_the_answer_file_has_no_place_for_one():
    assert "ProductKey" not in windows()["autounattend.xml"]


def test_the_steps_of_a_windows_guest_lie_next_to_their_script():
    files = windows()
    plan = json.loads(files["vgpumgr/steps.json"])
    assert plan["files"][0]["content"] == "<lic>&"
    assert [each["name"] for each in plan["steps"]][:3] == [
        "VirtIO drivers and the guest agent",
        "the guest agent's service",
        "NVIDIA driver",
    ]
    assert "first-boot.json" in files["vgpumgr/first-boot.ps1"]
