"""User YAML: documents of ``apiVersion: vgpumgr/v1`` in, model values out, JSON Schema."""

from vgpumgr.spec.dump import layout_document, vm_document
from vgpumgr.spec.load import Documents, load
from vgpumgr.spec.mix import load_mix
from vgpumgr.spec.problems import COMMAND_LINE, Problem, SpecError, UnknownProfiles
from vgpumgr.spec.schema import json_schema

__all__ = [
    "COMMAND_LINE",
    "Documents",
    "Problem",
    "SpecError",
    "UnknownProfiles",
    "json_schema",
    "layout_document",
    "load",
    "load_mix",
    "vm_document",
]
