"""JSON Schema (draft 2020-12) of the documents, for editors and checks before vgpumgr."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vgpumgr.model.errors import UsageError
from vgpumgr.spec.fields import Key
from vgpumgr.spec.host_key_descriptions import HOST_KEYS
from vgpumgr.spec.key_descriptions import WORKLOAD_KEYS
from vgpumgr.spec.load import KINDS
from vgpumgr.spec.problems import did_you_mean

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
