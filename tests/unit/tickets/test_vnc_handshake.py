"""Both handshakes, against a peer that says what it was told to."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vgpumgr.app import vnc_handshake
from vgpumgr.model.errors import HostRefused

OK, FAILED = struct.pack(">I", 0), struct.pack(">I", 1)
HELLO = vnc_handshake.VERSION + b"\1\1" + OK


class Told:
    """Says ``words``, then is gone; keeps what it hears."""

    def __init__(self, words: bytes) -> None:
        self.words = words
        self.heard = b""

    def recv(self, size: int) -> bytes:
        piece, self.words = self.words[:size], self.words[size:]
        return piece

    def sendall(self, data: bytes) -> None:
        self.heard += data


class Knowing(Told):
    """A viewer of a version that answers the challenge with a password."""

    def __init__(self, version: bytes, password: str) -> None:
        super().__init__(version if version.endswith(b"3\n") else version + b"\2")
        self.password = password

    def sendall(self, data: bytes) -> None:
        super().sendall(data)
        if len(data) == 16:
            self.words += vnc_handshake.response(data, self.password)


def test_des_is_des() -> None:
    """The example of FIPS 81, appendix B."""
    found = vnc_handshake.des(bytes.fromhex("0123456789abcdef"), b"Now is the time ")
    assert found.hex() == "3fa40e8a984d48156a271787ab8883f9"


def test_the_key_is_the_password_with_the_bits_of_each_byte_turned_around() -> None:
    challenge = bytes(range(16))
    assert vnc_handshake.response(challenge, "a") == vnc_handshake.des(
        b"\x86" + bytes(7), challenge
    )
    assert vnc_handshake.response(challenge, "12345678") == vnc_handshake.response(
        challenge, "123456789"
    )


@pytest.mark.parametrize("minor", [b"003", b"007", b"008"])
def test_every_version_of_a_viewer_gets_in_with_the_password(minor: bytes) -> None:
    viewer = Knowing(b"RFB 003." + minor + b"\n", "secret12")
    assert vnc_handshake.admit(viewer, "secret12")
    assert viewer.heard.endswith(OK)


@pytest.mark.parametrize("minor", [b"003", b"007", b"008"])
def test_nobody_gets_in_without_it(minor: bytes) -> None:
    viewer = Knowing(b"RFB 003." + minor + b"\n", "secret13")
    assert not vnc_handshake.admit(viewer, "secret12")
    assert FAILED in viewer.heard[-40:]
    assert (b"wrong password" in viewer.heard) is (minor == b"008")


def test_a_viewer_that_wants_no_password_is_not_let_in() -> None:
    with pytest.raises(OSError, match="does not ask for the password"):
        vnc_handshake.admit(Told(vnc_handshake.VERSION + b"\1"), "secret12")


@given(st.binary(max_size=80))
def test_whatever_a_viewer_says_it_is_in_or_not(words: bytes) -> None:
    try:
        assert not vnc_handshake.admit(Told(words), "secret12")
    except OSError:
        pass


@given(st.binary(max_size=80))
def test_whatever_a_console_says_it_is_one_or_not(words: bytes) -> None:
    try:
        vnc_handshake.greet(Told(words))
    except (OSError, HostRefused):
        pass


def test_a_console_without_a_password_is_greeted_up_to_where_the_viewer_goes_on() -> None:
    console = Told(HELLO + b"rest")
    vnc_handshake.greet(console)
    assert (console.heard, console.words) == (vnc_handshake.VERSION + b"\1", b"rest")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (b"SSH-2.0-Open", "no VNC server"),
        (vnc_handshake.VERSION + b"\1\2", "password of its own"),
        (vnc_handshake.VERSION + b"\0" + struct.pack(">I", 4) + b"busy", "refuses every client"),
        (
            vnc_handshake.VERSION + b"\1\1" + FAILED + struct.pack(">I", 4) + b"busy",
            "refuses every client",
        ),
    ],
)
def test_a_console_that_cannot_be_used_is_refused(words: bytes, why: str) -> None:
    with pytest.raises(HostRefused, match=why):
        vnc_handshake.greet(Told(words))
