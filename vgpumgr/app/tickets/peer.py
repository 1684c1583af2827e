"""Whose program is at the other end of a TCP connection on this machine: the kernel's word."""

from __future__ import annotations

import socket
import struct

# sock_diag(7): one socket is asked for by its two addresses.
_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST = 20, 1
_ESTABLISHED = 1
_NO_COOKIE = 0xFFFFFFFF
_HEADER = struct.Struct("=IHHII")
_ASK = struct.Struct("=BBBBI")
_PORTS = struct.Struct(">HH")
_WHOLE = struct.Struct("=III")
_UID_INODE = struct.Struct("=II")
_ID_AT, _UID_AT = _HEADER.size + 4, _HEADER.size + 64
_TIMEOUT_S = 5.0


def peer_uid(connection: socket.socket) -> int | None:
    """The uid that made the other end, IPv4 or IPv6; None where that is no live socket here.

    A socket that was closed already belongs to nobody, though the kernel may say root. OSError
    where the kernel was not to be asked.
    """
    theirs, ours = connection.getpeername(), connection.getsockname()
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as kernel:
        kernel.settimeout(_TIMEOUT_S)
        kernel.send(_question(connection.family, theirs, ours))
        return _answered(kernel.recv(1 << 16), _PORTS.pack(theirs[1], ours[1]))


def _question(family: int, theirs: tuple[str, int], ours: tuple[str, int]) -> bytes:
    """``inet_diag_req_v2`` for the other end: its own address is the source."""
    addresses = (socket.inet_pton(family, each[0]).ljust(16, b"\0") for each in (theirs, ours))
    identity = _PORTS.pack(theirs[1], ours[1]) + b"".join(addresses)
    asked = _ASK.pack(family, socket.IPPROTO_TCP, 0, 0, 1 << _ESTABLISHED) + identity
    asked += _WHOLE.pack(0, _NO_COOKIE, _NO_COOKIE)
    size = _HEADER.size + len(asked)
    return _HEADER.pack(size, _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, 1, 0) + asked


def _answered(answer: bytes, ports: bytes) -> int | None:
    """The uid in an ``inet_diag_msg`` about an established socket that a process still has."""
    _, kind, *_ = _HEADER.unpack_from(answer)
    if kind != _SOCK_DIAG_BY_FAMILY or len(answer) < _UID_AT + _UID_INODE.size:
        return None  # NLMSG_ERROR: no such socket
    state, found = answer[_HEADER.size + 1], answer[_ID_AT : _ID_AT + _PORTS.size]
    uid, inode = _UID_INODE.unpack_from(answer, _UID_AT)
    return int(uid) if state == _ESTABLISHED and found == ports and inode else None
