"""JSON Schema (draft 2020-12) of the documents, for editors and checks before vgpumgr."""

from __future__ import annotations

from typing import Any

from vgpumgr.model.errors import UsageError
from vgpumgr.spec.key_descriptions import WORDS
from vgpumgr.spec.load import KINDS
from vgpumgr.spec.problems import did_you_mean

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schema(kind: str) -> dict[str, Any]:
    """The schema of ``VM``, ``Host``, ``Layout``, ``Pool`` or ``Fleet``, every key with its words;
    UsageError for another kind.
    """
    if kind not in KINDS:
        why = f"known are {', '.join(KINDS)}{did_you_mean(kind, KINDS)}"
        raise UsageError(f"no schema for kind {kind}", why=why)
    schema = {"$schema": DIALECT, **KINDS[kind].model_json_schema(), "title": kind}
    for name, model in ((kind, schema), *schema.get("$defs", {}).items()):
        for key, words in WORDS.get(name, {}).items():
            model["properties"][key]["description"] = words
    return schema
