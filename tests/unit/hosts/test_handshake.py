"""A server that begins to speak SSH and falls silent."""

from __future__ import annotations

import socket
from contextlib import closing

import pytest

from vgpumgr.hosts.ssh.handshake import verified
from vgpumgr.hosts.ssh.ssh_config import SshTarget
from vgpumgr.model.errors import HostUnreachable


def test_a_key_exchange_that_never_ends_is_an_unreachable_host() -> None:
    ours, theirs = socket.socketpair()
    with closing(ours), closing(theirs):
        theirs.sendall(b"SSH-2.0-slow\r\n")
        target = SshTarget(host="h1", port=22, user="u", identity_files=())
        with pytest.raises(HostUnreachable) as raised:
            verified(target, lambda: ours, 0.3, frozenset({"SHA256:x"}), "")
    assert "does not answer as an SSH server" in raised.value.message
    assert raised.value.why == "no keys exchanged within 0.3 s"
