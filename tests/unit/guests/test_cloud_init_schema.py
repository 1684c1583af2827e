"""What profiles become, against cloud-init itself: its schema, and its own merging of user data.

The package is fetched and unpacked, never installed: nothing of it runs as a service.
"""

from __future__ import annotations

import json
import subprocess
from typing import Any

import jsonschema
import pytest
import yaml

from vgpumgr import guests
from vgpumgr.guests.cloud_config import known_keys
from vgpumgr.model.guest import ChosenProfile, GuestSpec

pytestmark = [pytest.mark.thorough, pytest.mark.root]

SCHEMA = "usr/lib/python3/dist-packages/cloudinit/config/schemas/schema-cloud-config-v1.json"
FACTS = {"name": "a", "host": "h1", "tenant": "t", "driver_branch": "550", "last_gpu": "0"}
SAID = {
    "branch": "550",
    "uri": "http://mirror.lan/debian",
    "suite": "./",
    "endpoint": "10.0.0.1:6443",
    "ca_hash": f"sha256:{'0' * 64}",
    "source": "nfs.lan:/data",
    "from": "nfs.lan:/data",
    "to": "/data",
    "target": "/data",
    "port": "8888",
    "installer": "setup.exe",
    "key_file": "/etc/ceph/mount.key",
    "options": "_netdev,nofail",
}
KINDS = {
    "string": "text", "array": "list", "object": "mapping", "boolean": "switch",
    "integer": "number", "number": "number",
}  # fmt: skip


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The schema of the distribution's cloud-init."""
    folder = tmp_path_factory.mktemp("cloud-init")
    fetch = ["apt-get", "-qq", "-o", "APT::Sandbox::User=root", "download", "cloud-init"]
    subprocess.run(fetch, cwd=folder, check=True, capture_output=True, timeout=120)
    [package] = folder.glob("cloud-init_*.deb")
    subprocess.run(["dpkg-deb", "--extract", package, folder / "root"], check=True, timeout=60)
    found: dict[str, Any] = json.loads((folder / "root" / SCHEMA).read_text())
    return found


def made(name: str) -> dict[str, Any]:
    about = guests.profile(name).parameters
    said = {
        key: each.choices[-1] if each.choices else SAID.get(key, "value")
        for key, each in about.items()
    }
    chosen = ChosenProfile(name=name, parameters=said)
    guest = GuestSpec(
        user="ada", password="pw", locale="de_DE.UTF-8", time_zone="UTC", profiles=(chosen,)
    )
    found: dict[str, Any] = yaml.safe_load(guests.user_data(guest, "debian-12", FACTS, None))
    return found


def test_each_profile_is_what_cloud_init_takes(schema: dict[str, Any]) -> None:
    validator = jsonschema.Draft4Validator(schema)
    for name in guests.profiles():
        if "debian" in guests.profile(name).systems:
            faults = [
                f"{list(each.path)}: {each.message}" for each in validator.iter_errors(made(name))
            ]
            assert faults == [], name


def test_the_schema_finds_what_is_wrong(schema: dict[str, Any]) -> None:
    wrong = {**made("docker"), "packages": {"a": 1}}
    assert not jsonschema.Draft4Validator(schema).is_valid(wrong)


def test_every_key_that_cloud_init_has_is_known_with_its_kinds(schema: dict[str, Any]) -> None:
    modules = (each for name, each in schema["$defs"].items() if name.startswith("cc_"))
    keys = {key: about for each in modules for key, about in each.get("properties", {}).items()}
    assert len(keys) > 60
    assert keys.keys() - known_keys().keys() == set()
    for key, about in keys.items():
        said = about.get("type")
        kinds = {
            KINDS[each]
            for each in ([said] if isinstance(said, str) else said or ())
            if each in KINDS
        }
        assert kinds <= set(known_keys()[key]), key
