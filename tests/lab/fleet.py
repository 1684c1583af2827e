"""The fleet that the lab's tests use, with bare hosts set up and enrolled the product's own way.

Run it inside the lab before the tests; what is enrolled already stays. It lives in .lab/run, and
so as long as the hosts do.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.lab.labhost import RUN, LabHost, Vgpumgr  # noqa: E402

FLEET = RUN / "fleet"
SETUP_S = 3600.0


def program(folder: Path) -> Vgpumgr:
    """The program with the tests' fleet; ``folder`` is for a test's own files."""
    FLEET.mkdir(exist_ok=True)
    config = FLEET / "ssh_config"
    key = (RUN / "box").read_text().strip() + "/id_ed25519"
    config.write_text(f"Host 10.77.0.*\n  IdentityFile {key}\n")
    return Vgpumgr(folder, FLEET / "state", config)


def set_up(vgpumgr: Vgpumgr, host: LabHost) -> None:
    """Enrol a host with ``--bootstrap``: minutes for a bare one, a minute for another time."""
    added = vgpumgr(
        *("host", "add", host.name, "--address", host.address, "--fingerprint", host.fingerprint),
        *("--bootstrap", "-e", "vgpumgr_lab=true"),
        timeout_s=SETUP_S,
    )
    print(added.err, file=sys.stderr)


if __name__ == "__main__":
    vgpumgr = program(ROOT)
    for name in sys.argv[1:]:
        if name not in vgpumgr.hosts():
            set_up(vgpumgr, LabHost.named(name))
