"""The NoCloud seed: a small ISO 9660 image that cloud-init finds by its label, ``cidata``."""

from __future__ import annotations

import json
from io import BytesIO

from pycdlib import PyCdlib

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
