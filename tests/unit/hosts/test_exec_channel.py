"""A channel whose connection broke: its users hear an OSError, and closing it is quiet."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import paramiko
import pytest

from vgpumgr.hosts.ssh.ssh_connection import ExecChannel


class BrokenChannel:
    """What paramiko does after the connection was lost: it raises at each message it sends."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def _raise(self, *_: object) -> bytes:
        raise self._error

    sendall = close = _raise


def channel_after(error: Exception, done: Callable[[], None]) -> ExecChannel:
    broken = cast(paramiko.Channel, BrokenChannel(error))
    return ExecChannel(broken, "true", done, timeout_s=30.0)


@pytest.mark.parametrize(
    "error", [EOFError(), paramiko.SSHException("gone"), OSError("Socket is closed")]
)
def test_a_broken_connection_is_an_os_error_and_its_place_is_free(error: Exception) -> None:
    freed: list[bool] = []
    channel = channel_after(error, lambda: freed.append(True))
    with pytest.raises(OSError):
        channel.sendall(b"x")
    channel.close()
    channel.close()
    assert freed == [True]
