"""The test driver's description of one simulated host: what ``test:///FILE`` reads."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Iterator

from lxml import etree

from vgpumgr import virt
from vgpumgr.domainxml import knows
from vgpumgr.model.host import MachineFeature
from vgpumgr.model.sim_fleet import SimHost

IMAGES = "/var/lib/libvirt/images"


def connect(host: SimHost) -> virt.Libvirt:
    """A test-driver connection that knows the host's pools and networks, and no domain."""
    with tempfile.NamedTemporaryFile(suffix=".xml") as file:
        file.write(node_xml(host))
        file.flush()
        return virt.open_uri(f"test://{file.name}")


SERVER = "nas.sim.example"
_MONITOR, _PORT = "mon.sim.example", "6789"
_KEY_UUID = "00000000-0000-4000-8000-0000ce9400aa"


def pool_path(pool: str, kind: str = "dir") -> str:
    """Where a storage pool's volumes lie."""
    if kind == "rbd":
        return pool
    if kind == "logical":
        return f"/dev/{pool}"
    return IMAGES if pool == "default" else f"/var/lib/libvirt/{pool}"


def node_xml(host: SimHost) -> bytes:
    """The file's content."""
    node = etree.Element("node")
    cpu = etree.SubElement(node, "cpu")
    per_node = max(1, host.cpus // host.numa_nodes)
    for name, value in {
        "mhz": "2400",
        "model": "x86_64",
        "active": str(host.cpus),
        "nodes": str(host.numa_nodes),
        "sockets": "1",
        "cores": str(per_node),
        "threads": "1",
    }.items():
        etree.SubElement(cpu, name).text = value
    etree.SubElement(node, "memory").text = str(host.memory_mib * 1024)
    for index, name in enumerate(host.networks):
        network = _named(node, "network", name)
        etree.SubElement(network, "bridge", name=f"virbr{index}")
    for name in host.pools:
        _pool(node, name, pool_path(name, host.pool_kind(name)))
    return etree.tostring(node)


def pool_files(host: SimHost) -> dict[str, str]:
    """libvirt's own definitions of the pools, by path, as the helper reads them."""
    return {f"/etc/libvirt/storage/{name}.xml": pool_xml(host, name) for name in host.pools}


def pool_xml(host: SimHost, name: str) -> str:
    """The definition that libvirt would have of a pool of that kind: its test driver has folders
    alone.
    """
    kind = host.pool_kind(name)
    pool = _pool(etree.Element("none"), name, pool_path(name, kind))
    pool.set("type", kind)
    _behind(etree.SubElement(pool, "source"), name, kind)
    return etree.tostring(pool).decode()


def _behind(source: etree._Element, name: str, kind: str) -> None:
    if kind == "netfs":
        etree.SubElement(source, "host", name=SERVER)
        etree.SubElement(source, "dir", path=f"/{name}")
    if kind == "rbd":
        etree.SubElement(source, "host", name=_MONITOR, port=_PORT)
        login = etree.SubElement(source, "auth", type="ceph", username="vgpumgr")
        etree.SubElement(login, "secret", uuid=_KEY_UUID)
    if kind in {"logical", "rbd"}:
        etree.SubElement(source, "name").text = name


def _pool(node: etree._Element, name: str, path: str) -> etree._Element:
    pool = _named(node, "pool", name)
    pool.set("type", "dir")
    etree.SubElement(etree.SubElement(pool, "target"), "path").text = path
    return pool


def _named(node: etree._Element, kind: str, name: str) -> etree._Element:
    element = etree.SubElement(node, kind)
    etree.SubElement(element, "name").text = name
    etree.SubElement(element, "uuid").text = str(uuid.uuid4())
    return element


def machine_features(host: SimHost) -> Iterator[MachineFeature]:
    """What libvirt there gives a machine that asks for it."""
    if host.tpm:
        yield MachineFeature.TPM
    if host.secure_boot:
        yield MachineFeature.SECURE_BOOT
    if knows(host.versions.libvirt, "vlan on a bridge"):
        yield MachineFeature.BRIDGE_VLAN
