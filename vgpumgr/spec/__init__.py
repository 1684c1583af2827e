"""User YAML: documents of ``apiVersion: vgpumgr/v1`` in, model values out, JSON Schema."""

from vgpumgr.spec.document_schema import json_schema
from vgpumgr.spec.dump import layout_document, vm_document
from vgpumgr.spec.load import Documents, kinds, load, load_mix
from vgpumgr.spec.spec_file import COMMAND_LINE, SpecError, SpecProblem, UnknownProfiles

__all__ = [
    "COMMAND_LINE",
    "Documents",
    "SpecError",
    "SpecProblem",
    "UnknownProfiles",
    "json_schema",
    "kinds",
    "layout_document",
    "load",
    "load_mix",
    "vm_document",
]
