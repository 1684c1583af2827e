"""Host facts as the ledger's text: what hosts of one kind have in common is at its end.

That end is read once for all of them.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from vgpumgr.model.codec import as_object, dump, fields_decoder
from vgpumgr.model.host import HostFacts
from vgpumgr.store.ledger.gpu_texts import in_range
from vgpumgr.store.ledger.row_memo import MOST_TEXTS

_COMMON = (
    "versions", "cpus", "memory_mib", "iommu", "kvm", "numa", "gpus", "networks", "bridges",
    "filters", "features",
    "foreign_mdev_definitions", "cpu_model", "hugepage_kib", "fabric",
)  # fmt: skip
# Quotes within a text are escaped, so this is a key; at the top level no later one is called so.
_BEGIN = f',"{_COMMON[0]}":'
_OF_GPU = ("device", "path", "model", "vendor_device")
_fields = fields_decoder(HostFacts)


def dump_host(facts: HostFacts) -> str:
    """A host's facts for its own row: which GPUs it has. What they show is in their rows."""
    values = as_object(facts)
    gpus = [{name: getattr(each, name) for name in _OF_GPU} for each in facts.gpus]
    common = {name: values.pop(name) for name in _COMMON} | {"gpus": gpus}
    return dump({**values, **common})


def load_host(text: str) -> HostFacts | None:
    """The facts that :func:`dump_host` wrote; None where a number in them is out of range."""
    own, _, common = text.rpartition(_BEGIN)
    try:
        mine, shared = json.loads(own + "}"), _read(f"{{{_BEGIN[1:]}{common}")
    except ValueError:  # an older vgpumgr wrote it, in another order
        own, mine, shared = text, json.loads(text), {}
    if shared is None or not in_range(own, mine):
        return None
    return HostFacts(**{**_fields(mine), **shared})


@lru_cache(maxsize=MOST_TEXTS)
def _read(text: str) -> dict[str, Any] | None:
    data = json.loads(text)
    return _fields(data) if in_range(text, data) else None
