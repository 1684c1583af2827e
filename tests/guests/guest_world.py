"""A host on which Debian guests boot, with a network and a repository of stand-ins for packages.

SSH, libvirt and QEMU are real; there is no KVM.

Disks and packages are made once and kept in ``build/guests``, by the hash of their recipes.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest import mock

from tests import nshosts
from tests.e2e.support import Cli, new_cli
from vgpumgr.guests import profile
from vgpumgr.model.guest import GuestProfile

HERE = Path(__file__).parent
KEPT = HERE.parents[1] / "build" / "guests"
RELEASES = ("12", "13")
NEEDS = ("/usr/bin/mmdebstrap", "/usr/sbin/dnsmasq", "/usr/sbin/sfdisk", "/usr/bin/gpg")
GATEWAY = "192.168.77.1"
NETWORK = f"""\
<network xmlns:dnsmasq='http://libvirt.org/schemas/network/dnsmasq/1.0'>
<name>guests</name><forward mode='open'/><bridge name='virbr7'/>
<ip address='{GATEWAY}' prefix='24'>
<dhcp><range start='192.168.77.10' end='192.168.77.250'/></dhcp>
</ip>
<dnsmasq:options><dnsmasq:option value='dhcp-option=42,{GATEWAY}'/></dnsmasq:options>
</network>
"""
# Emulation on a busy machine: minutes for a boot are nothing to wonder at.
PATIENCE_S = 7500.0


def missing() -> str:
    """Why no guest can boot here; empty when it can."""
    absent = [path for path in NEEDS if not Path(path).exists()]
    return nshosts.missing() or (f"{', '.join(absent)} not installed" if absent else "")


def disk(release: str) -> Path:
    """The disk of a Debian release, made where it is not there yet."""
    return _kept(
        HERE / "image", f"debian-{release}", "disk.qcow2", HERE / "image/image.sh", release
    )


def repository() -> Path:
    """The folder of stand-ins."""
    return _kept(HERE / "stand_ins", "packages", "repository", HERE / "repository.sh")


def _kept(recipe: Path, name: str, made: str, *command: Path | str) -> Path:
    folder = KEPT / f"{name}-{_hash(recipe, Path(command[0]))}"
    if not folder.exists():
        making = folder.with_suffix(".making")
        shutil.rmtree(making, ignore_errors=True)
        making.mkdir(parents=True)
        subprocess.run([*map(str, command), str(making / made)], check=True)
        making.rename(folder)
    return folder / made


def _hash(*recipes: Path) -> str:
    digest = hashlib.sha256()
    for recipe in recipes:
        for path in sorted([recipe, *recipe.rglob("*")]):
            if path.is_file():
                digest.update(str(path.relative_to(HERE)).encode() + path.read_bytes())
    return digest.hexdigest()[:12]


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestEnd:
    """How a guest's first boot ended by the product's own word: ``phase`` and ``why`` of ``vm
    show``; seconds until its agent answered, and until that end.
    """

    phase: str
    why: str
    agent_s: float
    ended_s: float
    seen: list[str] = field(default_factory=list)


class GuestWorld:
    """The host ``h0``, enrolled, with the images ``debian@12`` and what else is asked for."""

    def __init__(self, cli: Cli, fleet: nshosts.NamespaceFleet) -> None:
        self.cli = cli
        self.host = fleet.hosts[0]
        self.kept: Mapping[str, str] = {}

    def enrol(self) -> None:
        """Add the host to the fleet."""
        self.cli.ok(
            "host", "add", self.host.name, "--address", self.host.address(),
            "--fingerprint", self.host.fingerprint,
        )  # fmt: skip
        path = self.host.path("/run/guests.xml")
        path.write_text(NETWORK)
        for command in ("net-define /run/guests.xml", "net-start guests"):
            self.host.run("virsh", "-q", "-c", "qemu:///system", *command.split())

    def bring(self, release: str) -> None:
        """Import the disk of a release as ``debian@RELEASE``."""
        found = ("--name", "debian", "--version", release)
        self.cli.ok("image", "import", str(disk(release)), *found)

    @contextlib.contextmanager
    def packages(self) -> Iterator[None]:
        """Serve the repository and the time to guests, and to nothing else."""
        log = (self.cli.folder / "lan.log").open("w")
        server = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "--", *self.host.enter,
             sys.executable, str(HERE / "lan_servers.py"), GATEWAY, str(repository())],
            stdout=log, stderr=log,
        )  # fmt: skip
        try:
            yield
        finally:
            server.kill()
            server.wait()
            log.close()

    def secrets(self, values: Mapping[str, str]) -> None:
        """Keep secrets, which VMs' files name."""
        self.kept = values
        for name, value in values.items():
            self.cli.ok("secret", "set", name, "--tenant", "default", stdin=value.encode())

    def apply(self, document: dict[str, Any]) -> None:
        """Make the VM and start it; its seed has secrets in it then.

        This machine has no GPU: the profiles' word that the VM must have one is left aside here.
        """
        given = self.cli.documents(document)
        with mock.patch("vgpumgr.guests.profile", _without_needs):
            self.cli.ok("apply", "-f", given)
        assert self.in_seed(document["name"]), "a guest's password is in its seed"
        threading.Thread(target=self._write_down_console, args=[document["name"]]).start()

    def _write_down_console(self, name: str) -> None:
        """What the guest's serial line says, into a file: it tells why a boot hangs."""
        tty = self.host.run("virsh", "-c", "qemu:///system", "ttyconsole", name).strip()
        line = self.host.path(tty).open("rb", 0)
        log = (KEPT / f"{name}.log").open("wb", 0)
        with line, log, contextlib.suppress(OSError):  # when the guest is off
            while piece := line.read(4096):
                log.write(piece)

    def in_seed(self, name: str) -> list[str]:
        """The names of the secrets whose values its seed has in it."""
        [seed] = self.host.path("/var/lib/libvirt/images").glob(f"{name}-*.iso")
        found = seed.read_bytes()
        return [each for each, value in self.kept.items() if value.encode() in found]

    def document(self, name: str, release: str, *profiles: Any, **more: Any) -> dict[str, Any]:
        """A VM's file, as a user writes it."""
        local = {
            "name": "local",
            "uri": f"http://{GATEWAY}/",
            "key": (repository() / "key.asc").read_text(),
        }
        return {
            "name": name,
            "os": f"debian-{release}",
            "vcpus": 1,
            "memory": "768MiB",
            "firmware": "bios",
            "disks": [{"mode": "overlay", "image": f"debian@{release}", "cache": "unsafe"}],
            "networks": [{"network": "guests"}],
            "guest": {
                "user": "ada",
                "password": "ada-desktop",
                "profiles": [{"name": "package-repository", "parameters": local}, *profiles],
                "ready_within": "120m",
            },
            **more,
        }

    def ended(self, name: str) -> GuestEnd:
        """Wait until the guest is ready or has failed."""
        began = time.monotonic()
        agent_s, seen = 0.0, []
        while True:
            found = self.cli.ok("vm", "show", name, "-o", "json").json
            guest = found["guest"]
            line = json.dumps(guest)
            passed = time.monotonic() - began
            if not seen or not seen[-1].endswith(line):
                seen.append(f"{passed:.0f} s: {line}")
                print(seen[-1], file=sys.stderr, flush=True)
            phase, why = guest.get("phase", ""), guest.get("why", "")
            if not agent_s and phase == "starting" and "agent" not in why and why:
                agent_s = passed
            if phase in {"ready", "failed"}:
                return GuestEnd(phase=phase, why=why, agent_s=agent_s, ended_s=passed, seen=seen)
            assert passed < PATIENCE_S, f"{name} is neither ready nor failed: {seen}"
            time.sleep(1.0)


def _without_needs(name: str) -> GuestProfile:
    return replace(profile(name), needs=())


@contextlib.contextmanager
def serving(cli: Cli) -> Iterator[subprocess.Popen[str]]:
    """`vgpumgr serve`, which has the checks run."""
    log = cli.folder / "serve.log"
    with log.open("w") as out:
        process = cli.process("serve", "-o", "json", stdout=out, stderr=subprocess.STDOUT)
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


@contextlib.contextmanager
def guest_world(*releases: str) -> Iterator[GuestWorld]:
    """The world with its host enrolled, images of these releases on it, its repository served and
    `serve` at work.
    """
    for release in releases:  # before this thread is in a network of its own
        disk(release)
    repository()
    fleet = nshosts.NamespaceFleet(1)
    before = os.environ.get("VGPUMGR_SSH_CONFIG")
    os.environ["VGPUMGR_SSH_CONFIG"] = str(fleet.ssh_config)
    try:
        with new_cli() as cli:
            world = GuestWorld(cli, fleet)
            world.enrol()
            for release in releases:
                world.bring(release)
            with world.packages(), serving(cli):
                yield world
    finally:
        fleet.close()
        if before is None:
            del os.environ["VGPUMGR_SSH_CONFIG"]
        else:
            os.environ["VGPUMGR_SSH_CONFIG"] = before
