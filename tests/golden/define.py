"""Define domains in an embedded libvirt QEMU driver of its own and print what it kept.

Usage: define.py ROOT < JSON list of domain XML > JSON list of read-back XML. With ``--start`` each
domain is started under its accelerator and stopped again. A process of its own: libvirt's drivers
cannot be unloaded, and their threads are nothing a test process should keep.
"""

import json
import sys
import threading
from pathlib import Path

import libvirt

CONFIG = """
stdio_handler = "file"
security_driver = "none"
user = "root"
group = "root"
swtpm_user = "root"
swtpm_group = "root"
namespaces = []
cgroup_controllers = []
remember_owner = 0
"""


def serve_events() -> None:
    """The embedded driver needs its process to run libvirt's event loop."""
    while True:
        libvirt.virEventRunDefaultImpl()


def main() -> None:
    root, start = Path(sys.argv[1]), "--start" in sys.argv
    (root / "etc").mkdir()
    (root / "etc/qemu.conf").write_text(CONFIG)
    libvirt.virEventRegisterDefaultImpl()
    threading.Thread(target=serve_events, daemon=True).start()
    libvirt.registerErrorHandler(lambda *_: None, None)
    connection = libvirt.open(f"qemu:///embed?root={root}")
    answers = []
    for xml in json.load(sys.stdin):
        domain = connection.defineXMLFlags(xml, libvirt.VIR_DOMAIN_DEFINE_VALIDATE)
        if start:
            domain.create()
            domain.destroy()
        answers.append(domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE))
    json.dump(answers, sys.stdout)
    sys.stdout.flush()


main()
