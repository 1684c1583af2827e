"""Disk images, looked at before they are used: nothing of a file is believed unchecked. Pure."""

from vgpumgr.images.inspect import MOST_BYTES, Inspected, inspect
from vgpumgr.images.reader import Reader

__all__ = ["MOST_BYTES", "Inspected", "Reader", "inspect"]
