"""The cloud-init seed, read back from the ISO."""

import json
from io import BytesIO

import pytest
from pycdlib import PyCdlib

from vgpumgr.engine.steps.cloud_init_seed import build_seed


def seed(**changes):
    arguments = {
        "instance_id": "vm-1",
        "hostname": "web-01",
        "user_data": "#cloud-config\nhostname: é\n",
        "network_config": "version: 2\n",
    }
    return build_seed(**(arguments | changes))


def files(data: bytes, view: str) -> dict[str, bytes]:
    iso = PyCdlib()
    iso.open_fp(BytesIO(data))
    found = {}
    for child in iso.list_children(**{f"{view}_path": "/"}):
        if child.is_dot() or child.is_dotdot():
            continue
        encoding = "utf-16_be" if view == "joliet" else "utf-8"
        raw = child.file_identifier() if view == "joliet" else child.rock_ridge.name()
        name, out = raw.decode(encoding), BytesIO()
        iso.get_file_from_iso_fp(out, **{f"{view}_path": f"/{name}"})
        found[name] = out.getvalue()
    iso.close()
    return found


@pytest.mark.parametrize("view", ["rr", "joliet"])
def test_the_files_read_back_under_their_own_names(view):
    read = files(seed(), view)
    assert set(read) == {"meta-data", "user-data", "network-config"}
    assert read["user-data"] == "#cloud-config\nhostname: é\n".encode()
    assert read["network-config"] == b"version: 2\n"
    assert json.loads(read["meta-data"]) == {"instance-id": "vm-1", "local-hostname": "web-01"}


def test_it_carries_the_label_that_cloud_init_looks_for():
    volume_descriptor = seed()[16 * 2048 : 17 * 2048]
    assert volume_descriptor[1:6] == b"CD001"
    assert volume_descriptor[40:72].rstrip() == b"cidata"


def test_without_network_config_there_is_no_such_file():
    assert set(files(seed(network_config=None), "rr")) == {"meta-data", "user-data"}


def test_without_user_data_an_empty_configuration_keeps_the_seed_valid():
    assert files(seed(user_data=None), "rr")["user-data"] == b"#cloud-config\n"


def test_names_cannot_add_meta_data():
    meta = files(seed(hostname='x"\nevil: yes'), "rr")["meta-data"]
    assert set(json.loads(meta)) == {"instance-id", "local-hostname"}


def test_the_same_input_gives_the_same_bytes_but_for_dates():
    first, second = seed(), seed()
    assert len(first) == len(second)
    assert sum(a != b for a, b in zip(first, second, strict=True)) < 100
    assert files(first, "rr") == files(second, "rr")


def test_a_seed_of_a_mebibyte_is_carried_whole():
    text = "#cloud-config\n" + "#" * (1 << 20)
    assert files(seed(user_data=text), "rr")["user-data"] == text.encode()
