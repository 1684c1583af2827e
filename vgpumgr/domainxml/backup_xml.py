"""The XML by which libvirt has a running domain's disks copied."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from vgpumgr.domainxml.domain_facts import disks
from vgpumgr.domainxml.xml_tree import template, untrusted


def disk_backup(xml: str, files: Mapping[str, str], since: str = "") -> str:
    """``<domainbackup>`` for the domain of ``xml``: each disk of ``files``, by its target
    (``vda``), is copied into the qcow2 file there, no other one is. With ``since``, a checkpoint,
    only what was written after that is.

    Raises ValueError for a target that the domain does not have, and for text that is no domain.
    """
    there = [each.target for each in disks(xml)]
    if absent := sorted(set(files) - set(there)):
        raise ValueError(f"the domain has no disk {', '.join(absent)}")
    tree = template("backup/backup")
    if since:
        tree.set("incremental", since)
    else:
        tree.drop("incremental")
    for target in there:
        if target not in files:
            tree.add("disks", "disk", name=target, backup="no")
            continue
        disk = template("backup/disk")
        disk.set("@name", target)
        disk.set("target/@file", files[target])
        tree.append("disks", disk)
    return tree.text()


def backup_files(xml: str) -> frozenset[str]:
    """The files that a ``<domainbackup>`` writes to; ValueError for text that is none."""
    found = untrusted(xml, "domainbackup").iterfind("disks/disk/target")
    return frozenset(str(each.get("file")) for each in found if each.get("file"))


def checkpoint(xml: str, targets: Collection[str], name: str) -> str:
    """``<domaincheckpoint>`` of these disks of the domain of ``xml``, of that name."""
    tree = template("backup/checkpoint")
    tree.set("name", name)
    for target in (each.target for each in disks(xml)):
        how = "bitmap" if target in targets else "no"
        tree.add("disks", "disk", name=target, checkpoint=how)
    return tree.text()
