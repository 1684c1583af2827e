"""What others have on a host: nothing of ours may ever touch it."""

from __future__ import annotations

from vgpumgr.sim.simulated_host import SimulatedHost

DOMAIN = """\
<domain type='kvm'>
  <name>stranger</name>
  <uuid>0e0f0a0b-0000-4000-8000-000000000001</uuid>
  <memory unit='MiB'>256</memory>
  <vcpu>1</vcpu>
  <os><type arch='x86_64' machine='q35'>hvm</type></os>
  <features><acpi/></features>
</domain>
"""
VOLUME = """\
<volume>
  <name>stranger.qcow2</name>
  <capacity unit='bytes'>1048576</capacity>
  <target><format type='qcow2'/></target>
</volume>
"""


def put_strangers(host: SimulatedHost) -> None:
    """A running domain and a volume that somebody else made."""
    host.domains.define(DOMAIN)
    host.domains.start("stranger")
    host.storage.create("default", VOLUME)
