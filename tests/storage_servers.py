"""Storage for namespace hosts: an export that libvirt mounts as NFS, and a Ceph cluster of one OSD.

The kernels of test machines have no NFS. ``mount -t nfs`` runs ``mount.nfs``, which is a script on
these hosts: it shows a folder of this machine's by FUSE, under the server's name and path, so that
libvirt's pool of kind ``netfs`` is real, and can stall. Ceph is real, with its data in memory.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import uuid
from pathlib import Path
from typing import Protocol

from tests import nshosts

SERVER, EXPORT = "nas.test.example", "/vms"
NFS_POOL, CEPH_POOL = "nas", "ceph"
_FUSE = ("bindfs", "fusermount3")
_CEPH = ("ceph-mon", "ceph-osd", "ceph-authtool", "monmaptool", "ceph", "rbd")

_MOUNT_NFS = """\
#!/bin/sh
# mount.nfs SOURCE TARGET -o OPTIONS
exec bindfs -o "fsname=$1,allow_other" {export} "$2"
"""

_PREPARE = """\
set -e
mknod -m 666 /dev/fuse c 10 229
mkdir -p /run/own/up /run/own/work /var/lib/libvirt/nas
cp {script} /run/own/up/mount.nfs
chmod 755 /run/own/up/mount.nfs
mount -t overlay overlay -o lowerdir=/usr/sbin,upperdir=/run/own/up,workdir=/run/own/work /usr/sbin
"""

_NFS_XML = f"""\
<pool type='netfs'><name>{NFS_POOL}</name>
<source><host name='{{server}}'/><dir path='{EXPORT}'/><format type='nfs'/></source>
<target><path>/var/lib/libvirt/nas</path></target></pool>
"""


class Host(Protocol):
    """What is needed of a namespace host."""

    def run(self, *argv: str) -> str:
        """Run a program there."""

    def path(self, inside: str) -> Path:
        """A path of it as this process sees it."""


def missing() -> str:
    """Why there can be no export here; empty when there can."""
    absent = [name for name in _FUSE if shutil.which(name) is None]
    return f"{', '.join(absent)} not installed" if absent else nshosts.missing()


def ceph_missing() -> str:
    """Why there can be no Ceph here; empty when there can."""
    absent = [name for name in _CEPH if shutil.which(name) is None]
    return f"{', '.join(absent)} not installed" if absent else nshosts.missing()


class NfsServer:
    """A folder that hosts mount. ``prepare`` is for ``NamespaceFleet``."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="nfs-"))
        self.export = self.folder / "export"
        self.export.mkdir()
        script, prepare = self.folder / "mount.nfs", self.folder / "prepare"
        script.write_text(_MOUNT_NFS.format(export=self.export))
        prepare.write_text(_PREPARE.format(script=script))
        self.prepare = ("sh", str(prepare))

    def mount(self, host: Host, called: str = SERVER) -> None:
        """Have a host's libvirt know the pool, and mount it, by that name of the server."""
        define_pool(host, NFS_POOL, _NFS_XML.format(server=called))

    def stall(self, host: Host, *, on: bool) -> None:
        """Answer nothing that the host asks, or all again."""
        host.run("sh", "-c", f"kill -{'STOP' if on else 'CONT'} $(pidof bindfs)")

    def close(self) -> None:
        """Take the folder away; all hosts have ended."""
        shutil.rmtree(self.folder)


def define_pool(host: Host, name: str, xml: str) -> None:
    """Define a pool and start it."""
    host.path(f"/run/{name}.xml").write_text(xml)
    host.run("virsh", "-q", "pool-define", f"/run/{name}.xml")
    host.run("virsh", "-q", "pool-start", name)


FOLDER = "/run/ceph-test"
MONITOR = "127.0.0.1:6789"
_POOL, _USER = "vms", "vm"

_CONF = """\
[global]
fsid = {fsid}
mon host = v1:{monitor}
mon initial members = a
auth cluster required = cephx
auth service required = cephx
auth client required = cephx
osd pool default size = 1
osd pool default min size = 1
osd crush chooseleaf type = 0
mon allow pool size one = true
osd objectstore = memstore
memstore device bytes = 536870912
ms bind msgr2 = false
run dir = {folder}
log file = {folder}/$name.log
admin socket = {folder}/$name.asok
pid file = {folder}/$name.pid
keyring = {folder}/keyring
mon data = {folder}/mon
osd data = {folder}/osd
"""

_CEPH_UP = """\
set -e
cd {folder}
mkdir mon osd
export CEPH_CONF={folder}/ceph.conf
key() {{ ceph-authtool keyring --gen-key -n "$@" >/dev/null; }}
ceph-authtool -C keyring --gen-key -n mon. --cap mon 'allow *' >/dev/null
key client.admin --cap mon 'allow *' --cap osd 'allow *' --cap mgr 'allow *'
key client.{user} --cap mon 'profile rbd' --cap osd 'profile rbd'
key osd.0 --cap mon 'allow profile osd' --cap osd 'allow *' --cap mgr 'allow profile osd'
monmaptool --create --addv a '[v1:{monitor}]' --fsid {fsid} monmap >/dev/null
ceph-mon --mkfs -i a --monmap monmap --keyring keyring
ceph-mon -i a
ceph osd new {osd} 0
ceph-osd -i 0 --mkfs --no-mon-config --osd-uuid {osd}
ceph-osd -i 0
ceph osd pool create {pool} 8
ceph osd pool application enable {pool} rbd
ceph-authtool keyring -p -n client.{user} | tr -d '\\n' >key
rbd -p {pool} create probe --size 1M
rbd -p {pool} rm probe --no-progress
"""


def start_ceph(host: Host) -> None:
    """A cluster of one OSD on a host, with a pool that its libvirt knows by a secret."""
    fsid, secret = str(uuid.uuid4()), str(uuid.uuid4())
    place = host.path(FOLDER)
    place.mkdir()
    words = {"folder": FOLDER, "fsid": fsid, "monitor": MONITOR, "pool": _POOL, "user": _USER}
    (place / "ceph.conf").write_text(_CONF.format(**words))
    (place / "up").write_text(_CEPH_UP.format(**words, osd=str(uuid.uuid4())))
    try:
        host.run("timeout", "60", "sh", f"{FOLDER}/up")
    except subprocess.CalledProcessError as error:
        raise RuntimeError(f"Ceph did not come up: {error.stderr}") from error
    host.path("/run/secret.xml").write_text(
        f"<secret ephemeral='no' private='yes'><uuid>{secret}</uuid>"
        "<usage type='ceph'><name>vm</name></usage></secret>"
    )
    host.run("virsh", "-q", "secret-define", "/run/secret.xml")
    host.run("virsh", "-q", "secret-set-value", secret, "--file", f"{FOLDER}/key")
    name, port = MONITOR.split(":")
    xml = (
        f"<pool type='rbd'><name>{CEPH_POOL}</name><source><host name='{name}' port='{port}'/>"
        f"<name>{_POOL}</name><auth type='ceph' username='{_USER}'><secret uuid='{secret}'/>"
        "</auth></source></pool>"
    )
    define_pool(host, CEPH_POOL, xml)


def ceph_image(path: str) -> str:
    """An image of the cluster as QEMU's tools name it, on the host."""
    return f"rbd:{path}:conf={FOLDER}/ceph.conf"
