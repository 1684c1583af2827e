"""The NoCloud seed: a small ISO 9660 image that cloud-init finds by its label, ``cidata``."""

from __future__ import annotations

import json
from dataclasses import replace
from io import BytesIO

from vgpumgr.model.template import fill
from vgpumgr.model.vm import CloudInit, VmRecord

_LABEL = "cidata"
# cloud-init takes a seed only with user-data and meta-data in it; this one asks for nothing.
_NO_USER_DATA = "#cloud-config\n"


def build_seed(
    *,
    instance_id: str,
    hostname: str,
    user_data: str | None,
    network_config: str | None,
) -> bytes:
    """The ISO's bytes, with Rock Ridge and Joliet names.

    Two seeds of one input differ in nothing but the time stamps of the file system.
    """
    files = {
        "meta-data": json.dumps({"instance-id": instance_id, "local-hostname": hostname}),
        "user-data": _NO_USER_DATA if user_data is None else user_data,
    }
    if network_config is not None:
        files["network-config"] = network_config
    return _iso({name: text.encode() for name, text in sorted(files.items())})


def _iso(files: dict[str, bytes]) -> bytes:
    from pycdlib import PyCdlib  # slow to import, and whoever lists steps makes no seed

    iso = PyCdlib()
    iso.new(interchange_level=3, joliet=3, rock_ridge="1.09", vol_ident=_LABEL)
    for name, data in files.items():
        iso.add_fp(
            BytesIO(data),
            len(data),
            iso_path=f"/{name.replace('-', '_').upper()}.;1",
            rr_name=name,
            joliet_path=f"/{name}",
        )
    out = BytesIO()
    iso.write_fp(out)
    iso.close()
    return out.getvalue()


def filled(vm: VmRecord) -> CloudInit | None:
    """The seed's text with what the VM is put in, where that is asked for; None without a seed."""
    seed = vm.spec.cloud_init
    if seed is None or not seed.template:
        return seed
    values = {"name": vm.name, "host": vm.host, "tenant": vm.spec.tenant}

    def of(text: str | None) -> str | None:
        return None if text is None else fill(text, values)

    return replace(seed, user_data=of(seed.user_data), network_config=of(seed.network_config))
