"""JSON Schema (draft 2020-12) of the documents, with the meaning of each key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vgpumgr.model.errors import UsageError
from vgpumgr.spec.fields import Key
from vgpumgr.spec.flavour_document import FLAVOUR_KEYS
from vgpumgr.spec.host_key_descriptions import HOST_KEYS
from vgpumgr.spec.load import KINDS
from vgpumgr.spec.pool_key_descriptions import POOL_KEYS
from vgpumgr.spec.spec_file import did_you_mean
from vgpumgr.spec.vm_key_descriptions import VM_KEYS

# The keys themselves are in *_key_descriptions.py. tools/list_keys.py writes the pages docs/vm.md,
# layout.md, pool.md, host.md and fleet.md from them. A new key needs an entry; a test says so.


WORKLOAD_KEYS: Mapping[str, Mapping[str, Key]] = {
    **VM_KEYS,
    "Flavour": FLAVOUR_KEYS,
    **POOL_KEYS,
}


DIALECT = "https://json-schema.org/draft/2020-12/schema"

KEYS: Mapping[str, Mapping[str, Key]] = {**WORKLOAD_KEYS, **HOST_KEYS}
"""Every key, by the name that its model has in the schema, then by its own."""


def json_schema(kind: str) -> dict[str, Any]:
    """The schema of ``VM``, ``Host``, ``Layout``, ``Pool`` or ``Fleet``, every key with its
    sentence; UsageError for another kind.
    """
    if kind not in KINDS:
        why = f"known are {', '.join(KINDS)}{did_you_mean(kind, KINDS)}"
        raise UsageError(f"no schema for kind {kind}", why=why)
    schema = {"$schema": DIALECT, **KINDS[kind].model_json_schema(), "title": kind}
    for name, model in ((kind, schema), *schema.get("$defs", {}).items()):
        for key, told in KEYS.get(name, {}).items():
            model["properties"][key]["description"] = told.sentence
    return schema
