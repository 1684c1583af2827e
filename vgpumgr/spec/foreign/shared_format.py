"""The file format that mig-parted and vgpu-device-manager share, read as strictly as our files.

Source: ``api/spec/v1/spec.go`` of both projects.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, Field, ValidationError

from vgpumgr.model.errors import UsageError
from vgpumgr.spec.fields import Line, Strict, refuse
from vgpumgr.spec.load import decoded
from vgpumgr.spec.spec_file import SpecFindings, YamlTree, did_you_mean, trees
from vgpumgr.spec.validation_messages import report

MAX_CONFIGS = 1000
MAX_ENTRIES = 64
MAX_GPUS = 64
_PCI_ID_BITS = 32

F = TypeVar("F", bound=BaseModel)
T = TypeVar("T")


def _ids(value: object) -> object:
    """``0x20B510DE`` (device, then vendor), or a list of such → ``10de:20b5``. With a subsystem
    behind a colon → ``10de:20b5/10de:1533``.
    """
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(each, str) for each in texts):
        refuse('must be a PCI id like "0x20B510DE", or a list of them')
    return ["/".join(map(_id, each.split(":", 1))) for each in texts]


def _id(text: str) -> str:
    try:
        number = int(text, 0)
    except ValueError:
        number = -1
    if not 0 < number < 1 << _PCI_ID_BITS:
        refuse('must be a PCI id like "0x20B510DE", or a list of them')
    return f"{number & 0xFFFF:04x}:{number >> 16:04x}"


def _numbers(value: object) -> object:
    if value == "all":
        return None
    if not isinstance(value, list):
        refuse("must be all, or a list of GPU numbers")
    return value


Ids = Annotated[list[str], BeforeValidator(_ids), Field(max_length=MAX_GPUS)]
Number = Annotated[int, Field(ge=0, le=255)]
Numbers = Annotated[list[Number] | None, BeforeValidator(_numbers)]


class ForeignEntryModel(Strict):
    """The GPUs that an entry is for: ``numbers`` None are all; no ``ids`` are all boards."""

    ids: Ids = Field(default=[], alias="device-filter")
    numbers: Numbers = Field(alias="devices")


class ForeignFileModel(Strict):
    """The head of a file."""

    version: Literal["v1"]


ForeignConfigs = Annotated[
    dict[Line, Annotated[list[T], Field(min_length=1, max_length=MAX_ENTRIES)]],
    Field(min_length=1, max_length=MAX_CONFIGS),
]


def parse(data: bytes | str, source: str, model: type[F]) -> F:
    """The whole file; SpecError with every problem and its line."""
    findings = SpecFindings(source)
    tree = _tree(data, findings)
    try:
        return model.model_validate(tree.data)
    except ValidationError as error:
        report(error.errors(include_url=False), model, tree, frozenset(), findings)
    findings.raise_if_any()
    raise AssertionError(source)


def top_keys(data: bytes | str, source: str) -> frozenset[str]:
    """The keys that a file begins with; none where it is no mapping."""
    found: Any = _tree(data, SpecFindings(source)).data
    return frozenset(found) if isinstance(found, dict) else frozenset()


def _tree(data: bytes | str, findings: SpecFindings) -> YamlTree:
    text = decoded(data, findings)
    findings.raise_if_any()
    found = trees(text, findings)
    if len(found) > 1:
        findings.add(found[1].start, "a second document: the file is one mapping")
    findings.raise_if_any()
    return found[0] if found else YamlTree()


def chosen(configs: Mapping[str, T], config: str, source: str) -> tuple[str, T]:
    """The named configuration, or the only one; UsageError names those there are."""
    if not config and len(configs) == 1:
        return next(iter(configs.items()))
    if config in configs:
        return config, configs[config]
    what = f"{source} has no configuration {config}" if config else f"{source} has several"
    names = ", ".join(list(configs)[:50])
    raise UsageError(what, why=f"it holds {names}{did_you_mean(config, configs)}")
