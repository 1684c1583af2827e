"""The VNC handshake (RFB, RFC 6143) of the console proxy, towards the VM and towards the viewer.

Towards a VM we are the viewer, towards the viewer the server, which asks for the password.
Behind both handshakes the rest is the same, and is passed on as it is.
"""

from __future__ import annotations

import hmac
import secrets
import struct
from typing import Protocol

from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
from cryptography.hazmat.primitives.ciphers import Cipher, modes

from vgpumgr.model.errors import HostRefused

VERSION = b"RFB 003.008\n"
_OLD = {b"RFB 003.003\n": 3, b"RFB 003.007\n": 7, VERSION: 8}
_NO_PASSWORD, _PASSWORD = 1, 2
_OK, _FAILED = struct.pack(">I", 0), struct.pack(">I", 1)
_CHALLENGE = 16
_MAX_REASON = 4096


class VncPeer(Protocol):
    """The other side."""

    def recv(self, size: int) -> bytes:
        """Some bytes; none at the end."""

    def sendall(self, data: bytes) -> None:
        """All bytes."""


def greet(console: VncPeer) -> None:
    """Shake hands with a VM's VNC server; HostRefused where that is none, or wants a password.

    OSError when it breaks off.
    """
    if not _read(console, len(VERSION)).startswith(b"RFB 003."):
        raise HostRefused("no VNC server is behind the console", why="it does not speak RFB 3")
    console.sendall(VERSION)
    kinds = _read(console, _read(console, 1)[0])
    if not kinds:
        raise HostRefused("the console refuses every client", why=_reason(console))
    if _NO_PASSWORD not in kinds:
        raise HostRefused(
            "the console has a password of its own",
            why="tickets are for consoles that only the host's root can reach, without one",
            next="take passwd from <graphics> in the domain's XML",
        )
    console.sendall(bytes((_NO_PASSWORD,)))
    if _read(console, 4) != _OK:
        raise HostRefused("the console refuses every client", why=_reason(console))


def admit(viewer: VncPeer, password: str) -> bool:
    """Shake hands with a viewer; does it know the password? OSError when it breaks off."""
    viewer.sendall(VERSION)
    version = _OLD.get(_read(viewer, len(VERSION)))
    if version is None:
        raise OSError("it does not speak RFB 3.3, 3.7 or 3.8")
    if version == 3:
        viewer.sendall(struct.pack(">I", _PASSWORD))
    else:
        viewer.sendall(bytes((1, _PASSWORD)))
        if _read(viewer, 1)[0] != _PASSWORD:
            raise OSError("it does not ask for the password")
    challenge = secrets.token_bytes(_CHALLENGE)
    viewer.sendall(challenge)
    if hmac.compare_digest(_read(viewer, _CHALLENGE), response(challenge, password)):
        viewer.sendall(_OK)
        return True
    reason = b"wrong password" if version == 8 else b""
    viewer.sendall(_FAILED + (struct.pack(">I", len(reason)) + reason if reason else b""))
    return False


def response(challenge: bytes, password: str) -> bytes:
    """What a viewer answers: the challenge under DES, each byte of the key with its bits turned
    around (RFC 6143, 7.2.2).
    """
    padded = password.encode()[:8].ljust(8, b"\0")
    return des(bytes(int(f"{byte:08b}"[::-1], 2) for byte in padded), challenge)


def des(key: bytes, data: bytes) -> bytes:
    """Blocks of 8 bytes under DES, which is Triple DES with one key three times."""
    cipher = Cipher(TripleDES(key * 3), modes.ECB())  # noqa: S305  the protocol's, not our choice
    return cipher.encryptor().update(data)


def _reason(console: VncPeer) -> str:
    (length,) = struct.unpack(">I", _read(console, 4))
    return _read(console, min(length, _MAX_REASON)).decode("utf-8", "replace")


def _read(peer: VncPeer, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = peer.recv(size - len(data))
        if not piece:
            raise OSError("the other side disconnected")
        data += piece
    return data
