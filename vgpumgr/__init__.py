"""vgpumgr: GPUs for KVM virtual machines across a fleet of libvirt hosts."""

__version__ = "0.1.0"
API_VERSION = "vgpumgr/v1"
