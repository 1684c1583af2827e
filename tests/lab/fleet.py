"""The fleet that the lab's tests use, with bare hosts set up and enrolled the product's own way.

Run it inside the lab before the tests: it sets up every host that is up, and leaves the fleet with
lab1 alone, as most tests want it. The fleet lives in .lab/run, and so as long as the hosts do.
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.lab.labhost import RUN, LabHost, Vgpumgr, known  # noqa: E402

FLEET = RUN / "fleet"
SETUP_S = 3600.0
ALONE = "lab1"


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


def prepare(vgpumgr: Vgpumgr, host: LabHost) -> None:
    """Set a bare host up, once as long as the hosts live."""
    mark = FLEET / f"{host.name}.set-up"
    if not mark.exists():
        set_up(vgpumgr, host)
        mark.touch()


if __name__ == "__main__":
    vgpumgr = program(ROOT)
    hosts = [LabHost.named(name) for name in known()]
    with ThreadPoolExecutor() as side_by_side:
        list(side_by_side.map(lambda host: prepare(vgpumgr, host), hosts))
    for name in vgpumgr.hosts() - {ALONE}:
        vgpumgr("host", "remove", name, "-y", "--forget")
