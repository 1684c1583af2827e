"""Prints how to reach the running lab hosts, as JSON by name. Runs in the lab's namespaces."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

ADDRESSES = {"lab1": "10.77.0.11", "lab2": "10.77.0.12"}  # as in the Vagrantfile
ANSWERS_S = 120.0


def output(*argv: str, stdin: str = "") -> str:
    done = subprocess.run(argv, input=stdin, check=True, capture_output=True, text=True)
    return done.stdout


def host_key(address: str) -> str:
    """A line for known_hosts; networkd may still be at work on the address."""
    deadline = time.monotonic() + ANSWERS_S
    while True:
        argv = ("ssh-keyscan", "-T", "20", "-t", "ed25519", address)
        done = subprocess.run(argv, check=False, capture_output=True, text=True)
        if done.stdout:
            return done.stdout
        if time.monotonic() > deadline:
            raise TimeoutError(f"{address} shows no host key: {done.stderr}")
        time.sleep(1)


def describe(name: str, run: Path, box: Path) -> dict[str, str]:
    """Address, key and consoles of one host; its host key comes over the lab's own network."""
    line = host_key(ADDRESSES[name])
    known_hosts = run / f"{name}.known_hosts"
    known_hosts.write_text(line)
    return {
        "address": ADDRESSES[name],
        "key": str(box / "id_ed25519"),
        "fingerprint": output("ssh-keygen", "-l", "-f", "-", stdin=line).split()[1],
        "known_hosts": str(known_hosts),
        "console": str(run / "consoles" / f"{name}.log"),
    }


run, box = map(Path, sys.argv[1:])
up = output("virsh", "--quiet", "--connect", "qemu:///system", "list", "--name").split()
names = [name for name in ADDRESSES if f"vgpumgr-{name}" in up]
print(json.dumps({name: describe(name, run, box) for name in names}, indent=1))
