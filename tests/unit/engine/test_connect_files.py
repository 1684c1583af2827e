"""Connect files: the address, and that nothing of a guest or a user begins a line of its own."""

from __future__ import annotations

import configparser

import pytest

from vgpumgr.engine.consoles.connect_files import RDP_PORT, rdp_file, reachable, vv_file
from vgpumgr.model.errors import Conflict


def rdp(text: str) -> dict[str, str]:
    """As a client reads it: name, type and value by colons."""
    lines = text.split("\r\n")[:-1]
    return {":".join(each.split(":", 2)[:2]): each.split(":", 2)[2] for each in lines}


def test_an_rdp_file_names_the_guest_and_its_user() -> None:
    read = rdp(rdp_file("10.1.2.3", RDP_PORT, user="ada"))
    assert read["full address:s"] == "10.1.2.3:3389"
    assert read["username:s"] == "ada"
    assert read["prompt for credentials:i"] == "1"
    assert rdp(rdp_file("fd00::5", 3390, user="ada"))["full address:s"] == "[fd00::5]:3390"
    assert not any("password" in key for key in read)


def test_no_user_begins_a_line() -> None:
    read = rdp(rdp_file("10.1.2.3", RDP_PORT, user="ada\r\nfull address:s:10.6.6.6\r\nx"))
    assert read["full address:s"] == "10.1.2.3:3389"
    assert "alternate shell:s" not in rdp(
        rdp_file("10.1.2.3", RDP_PORT, user="a\nalternate shell:s:calc")
    )
    for end in ("\r", "\x85", "\u2028"):
        assert end not in rdp_file("10.1.2.3", RDP_PORT, user=f"a{end}b").replace("\r\n", "")


def test_no_address_begins_a_line() -> None:
    """The zone of an IPv6 address may be any text, for all that is known of addresses."""
    address = reachable("desk", ["fd00::5%a\r\nalternate shell:s:calc"], agent=True)
    assert "\nalternate shell" not in rdp_file(address, RDP_PORT, user="ada")


def test_a_viewer_file_is_for_one_connection() -> None:
    text = vv_file("127.0.0.1:5901", "s3cret", title="desk (ada)\npassword=x")
    read = configparser.RawConfigParser()
    read.read_string(text)
    section = dict(read["virt-viewer"])
    assert section["type"] == "vnc" and section["host"] == "127.0.0.1"
    assert (section["port"], section["password"]) == ("5901", "s3cret")
    assert section["delete-this-file"] == "1"


def test_an_ipv4_address_is_taken_first_and_none_is_a_conflict() -> None:
    assert reachable("desk", ["fd00::5", "10.1.2.3"], agent=True) == "10.1.2.3"
    assert reachable("desk", ["fd00::5"], agent=True) == "fd00::5"
    with pytest.raises(Conflict) as caught:
        reachable("desk", [], agent=False)
    assert caught.value.why == "its file does not say agent: true"
