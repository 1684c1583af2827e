"""Bridges to the libvirtd of a host: through its socket here, or through SSH."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from vgpumgr.hosts.libvirt.bridge import Bridge, SocketStream
from vgpumgr.hosts.libvirt.link import not_let_in
from vgpumgr.hosts.ssh.connection import SshConnection
from vgpumgr.model.errors import HostUnreachable

LIBVIRT_SOCKETS = (
    Path("/run/libvirt/libvirt-sock"),
    Path("/run/libvirt/virtqemud-sock"),
)
_VIRT_SSH_HELPER = ("virt-ssh-helper", "qemu:///system")


def local_bridge(name: str, sockets: Sequence[Path], timeout_s: float) -> Bridge:
    """To the first of ``sockets`` that is there; HostUnreachable or NotPermitted."""
    refused = "there is no socket of libvirtd"
    for path in sockets:
        try:
            return Bridge(SocketStream(path, timeout_s))
        except FileNotFoundError:
            continue
        except PermissionError as error:
            raise not_let_in(name, f"{path}: {error.strerror}") from error
        except OSError as error:
            refused = f"{path}: {error.strerror or error}"
    raise HostUnreachable(
        f"libvirt on {name} cannot be reached",
        why=refused,
        next="systemctl start libvirtd   (Debian: apt install libvirt-daemon-system)",
    )


def ssh_bridge(connection: SshConnection) -> Bridge:
    """Over a connection that other calls use as well."""
    channel = connection.open(_VIRT_SSH_HELPER)
    try:
        channel.start()
        return Bridge(channel)
    except BaseException:
        channel.close()
        raise
