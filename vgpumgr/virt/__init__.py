"""The one typed wrapper around libvirt-python: domains, storage, networks by intent."""

from vgpumgr.virt.libvirt_connection import Libvirt, open_uri

__all__ = ["Libvirt", "open_uri"]
