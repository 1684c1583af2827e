"""The XML by which libvirt has a running domain's disks written to other files."""

from __future__ import annotations

from collections.abc import Mapping

from vgpumgr.domainxml.domain_facts import disks
from vgpumgr.domainxml.xml_tree import template


def disk_switch(xml: str, files: Mapping[str, str]) -> str:
    """``<domainsnapshot>`` for the domain of ``xml``: each disk of ``files``, by its target
    (``vda``), goes on in the qcow2 file there, every other one stays as it is.

    Raises ValueError for a target that the domain does not have, and for text that is no domain.
    """
    there = [each.target for each in disks(xml)]
    if absent := sorted(set(files) - set(there)):
        raise ValueError(f"the domain has no disk {', '.join(absent)}")
    tree = template("snapshot/snapshot")
    for target in there:
        if target not in files:
            tree.add("disks", "disk", name=target, snapshot="no")
            continue
        disk = template("snapshot/disk")
        disk.set("@name", target)
        disk.set("source/@file", files[target])
        tree.append("disks", disk)
    return tree.text()
