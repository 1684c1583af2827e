"""Makes the shipped JSON from the YAML sources: ``python -m vgpumgr.catalog.build``."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

HERE = Path(__file__).parent
SHIPPED = ("gpus", "vgpu_types", "mig_profiles", "sriov_gpus", "fabric_partitions", "xid")


def built(name: str) -> bytes:
    """The JSON of ``source/<name>.yaml``: compact, keys in the order of the source."""
    source = (HERE / "source" / f"{name}.yaml").read_bytes()
    data = yaml.load(source, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - both are safe loaders
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def main() -> None:
    """Write every shipped table under ``data/``."""
    (HERE / "data").mkdir(exist_ok=True)
    for name in SHIPPED:
        (HERE / "data" / f"{name}.json").write_bytes(built(name))


if __name__ == "__main__":
    main()
