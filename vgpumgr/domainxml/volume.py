"""A volume plan → storage volume XML."""

from __future__ import annotations

from vgpumgr.domainxml.template import template
from vgpumgr.model.domain import VolumePlan

_FORMATS = {"raw", "qcow2"}


def volume(plan: VolumePlan) -> str:
    """The volume's XML, thinly provisioned; an overlay names its backing file *and* its format.

    Raises ValueError for an unknown format, an overlay that is not qcow2 or has no source.
    """
    if plan.format not in _FORMATS or plan.capacity_bytes < 0:
        raise ValueError(f"volume {plan.name!r}: raw or qcow2, and a size that is not negative")
    tree = template("volume/volume")
    tree.set("name", plan.name)
    tree.set("capacity", plan.capacity_bytes)
    tree.set("target/format/@type", plan.format)
    if plan.mode != "overlay":
        tree.drop("backingStore")
        return tree.text()
    if plan.format != "qcow2" or not plan.source_path or plan.source_format not in _FORMATS:
        raise ValueError(f"overlay {plan.name!r}: qcow2, on a path of declared format")
    tree.set("backingStore/path", plan.source_path)
    tree.set("backingStore/format/@type", plan.source_format)
    return tree.text()
