"""Disk images, looked at before they are used: nothing of a file is believed unchecked. Pure."""

from vgpumgr.images.inspection import MOST_BYTES, Inspected, inspect
from vgpumgr.images.qcow2 import Reader

__all__ = ["MOST_BYTES", "Inspected", "Reader", "inspect"]
