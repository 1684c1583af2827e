"""`serve` and `api` under the restrictions of their units, as far as they can be had without
systemd: another user without capabilities, everything read-only but the state folder, no devices,
no processes of other users. Address families and system calls are not filtered here.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.e2e.support import until
from tests.unit.app.test_api_findings import Pair

pytestmark = [pytest.mark.root, pytest.mark.thorough, pytest.mark.timeout(180)]
REPO = Path(__file__).parents[2]
USER = 65534
# A Python below /root is carried along: no service finds it there.
_SANDBOX = r"""
set -e
mount --make-rprivate /
for each in $WRITABLE; do mount --bind $each $each; done
case $PYTHON in /root/*)
  mkdir -p $CARRIED && mount --bind $PYTHON $CARRIED
  mount -t tmpfs -o mode=755 tmpfs /root && mkdir -p $PYTHON && mount --bind $CARRIED $PYTHON
  umount $CARRIED; mount -o remount,bind,ro $PYTHON; mount -o remount,ro /root ;;
esac
mkdir -p $CARRIED/dev/shm
for each in null zero full random urandom; do
  touch $CARRIED/dev/$each && mount --bind /dev/$each $CARRIED/dev/$each
done
mount -t tmpfs -o mode=1777 tmpfs $CARRIED/dev/shm
mount --rbind $CARRIED/dev /dev
mount -t proc -o hidepid=2 proc /proc
mount -t tmpfs -o mode=1777 tmpfs /tmp
mount -o remount,bind,ro /
cd /
exec setpriv --reuid $ID --regid $ID --clear-groups --bounding-set=-all --no-new-privs "$@"
"""


class Service:
    """A state folder, and what runs on it as the user of the units."""

    def __init__(self, folder: Path) -> None:
        self.state, self.run, self.carried = (folder / name for name in ("state", "run", "carried"))
        for each in (self.state, self.run, self.carried):
            each.mkdir()
            os.chown(each, USER, USER)
        self.state.chmod(0o700)
        self.socket = self.run / "api.sock"
        self.started: list[subprocess.Popen[str]] = []

    def argv(self, *command: str) -> list[str]:
        names = ["--mount", "--pid", "--ipc", "--fork", "--kill-child"]
        return ["unshare", *names, "sh", "-c", _SANDBOX, "sandbox", *command]

    def environ(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(REPO),
            "PYTHONDONTWRITEBYTECODE": "1",
            "VGPUMGR_STATE_DIR": str(self.state),
            "WRITABLE": f"{self.state} {self.run}",
            "PYTHON": sys.base_prefix,
            "CARRIED": str(self.carried),
            "ID": str(USER),
        }

    def ran(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.argv(*command), env=self.environ(), capture_output=True, text=True, timeout=60
        )

    def start(self, *args: str) -> subprocess.Popen[str]:
        argv = self.argv(sys.executable, "-m", "vgpumgr", *args)
        with (self.run.parent / f"{args[0]}.log").open("w") as log:
            self.started.append(
                subprocess.Popen(argv, env=self.environ(), stdout=log, stderr=log, text=True)
            )
        return self.started[-1]

    def signal(self, each: subprocess.Popen[str], number: signal.Signals) -> None:
        """To the service itself, whose end is its sandbox's."""
        if each.poll() is None:
            children = Path(f"/proc/{each.pid}/task/{each.pid}/children").read_text().split()
            for child in children:
                os.kill(int(child), number)

    def log(self, name: str) -> str:
        return (self.run.parent / f"{name}.log").read_text()

    def ask(self, *args: str) -> subprocess.CompletedProcess[str]:
        """As root, at the socket."""
        argv = [sys.executable, "-m", "vgpumgr", "--server", f"unix:{self.socket}", *args]
        environ = {**os.environ, "VGPUMGR_STATE_DIR": str(self.run.parent / "roots")}
        return subprocess.run(argv, env=environ, capture_output=True, text=True, timeout=60)


@pytest.fixture
def service() -> Iterator[Service]:
    folder = Path(tempfile.mkdtemp(prefix="vgpumgr-", dir="/var/tmp"))
    folder.chmod(0o755)
    made = Service(folder)
    yield made
    for each in made.started:
        made.signal(each, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            each.wait(10)
    shutil.rmtree(folder)


def test_the_sandbox_restricts(service: Service) -> None:
    """What the other tests here stand on."""
    said = service.ran(
        "sh", "-c",
        f"id -u; touch /etc/x 2>&1; touch /var/tmp/x 2>&1; touch {service.state}/x && echo state; "
        "ls /dev; ls /proc | grep -c '^[0-9]'; grep -E 'CapBnd|NoNewPrivs' /proc/self/status",
    ).stdout  # fmt: skip
    lines = said.split("\n")
    assert lines[0] == str(USER)
    assert said.count("Read-only file system") == 2 and "state" in lines
    assert "kvm" not in lines and "null" in lines
    assert "CapBnd:\t0000000000000000" in said and "NoNewPrivs:\t1" in said


def test_serve_and_api_work_there_and_root_makes_the_first_admin(service: Service) -> None:
    pair = Pair(service.run.parent)
    for each in (pair.certificate, pair.key):
        os.chown(each, 0, USER)
        each.chmod(0o640)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    tls = ("--listen", f"127.0.0.1:{port}", "--certificate", str(pair.certificate), "--key")
    arguments = ("api", "--socket", str(service.socket), *tls, str(pair.key))
    checked = service.ran(sys.executable, "-m", "vgpumgr", *arguments, "--check")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    service.start("serve", "-o", "json")
    until(lambda: (service.state / "serve.json").exists(), "serve")
    service.start(*arguments)
    until(service.socket.exists, "the socket")
    granted = service.ask("role", "grant", "user:alice@example.org", "admin")
    assert granted.returncode == 0, granted.stderr + service.log("api")
    listed = service.ask("role", "list", "-o", "json")
    assert "alice@example.org" in listed.stdout
    secure = pair_context(pair)
    with pytest.raises(urllib.error.HTTPError) as told:
        urllib.request.urlopen(f"https://127.0.0.1:{port}/v1/vms", context=secure, timeout=10)
    assert told.value.code == 401
    told.value.close()
    until((service.state / "keys" / "audit_checkpoint").exists, "serve seals the audit trail")
    [serve, api] = service.started
    for process in (api, serve):
        service.signal(process, signal.SIGTERM)
        assert process.wait(60) == 0, service.log("serve") + service.log("api")
    assert json.loads((service.state / "serve.json").read_text())["running"] is False
    assert not service.socket.exists()


def pair_context(pair: Pair) -> ssl.SSLContext:
    """A client that trusts the certificate."""

    context = ssl.create_default_context(cafile=str(pair.certificate))
    context.check_hostname = False
    return context
