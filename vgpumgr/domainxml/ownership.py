"""The mark a domain carries: whose it is, in ``<metadata>``."""

from __future__ import annotations

from collections.abc import Mapping

from lxml import etree

from vgpumgr.domainxml.template import Tree, clean
from vgpumgr.model.domain import Ownership

NAMESPACE = "https://vgpumgr.dev/v1"
_VM = f"metadata/{{{NAMESPACE}}}vm"
_ALLOCATION = f"{{{NAMESPACE}}}allocation"
_LABEL = f"{{{NAMESPACE}}}label"


def write(tree: Tree, ownership: Ownership, labels: Mapping[str, str]) -> None:
    """Fill the mark in a domain template; labels travel with it for people who read the XML."""
    tree.set(f"{_VM}/@fleet", ownership.fleet)
    tree.set(f"{_VM}/@name", ownership.vm)
    tree.set(f"{_VM}/@id", ownership.vm_id)
    tree.set(f"{_VM}/@generation", ownership.generation)
    for allocation in ownership.allocations:
        tree.add(_VM, _ALLOCATION, id=allocation)
    for name in sorted(labels):
        tree.add(_VM, _LABEL, name=name, value=labels[name])


def rewrite(domain: etree._Element, ownership: Ownership) -> None:
    """Put another mark in place of ours; labels stay. ValueError where there is none of ours."""
    mark = domain.find(_VM)
    if mark is None:
        raise ValueError("the domain does not carry our mark")
    mark.set("fleet", clean(ownership.fleet))
    mark.set("name", clean(ownership.vm))
    mark.set("id", clean(ownership.vm_id))
    mark.set("generation", clean(ownership.generation))
    for each in mark.findall(_ALLOCATION):
        mark.remove(each)
    for position, allocation in enumerate(ownership.allocations):
        mark.insert(position, etree.Element(_ALLOCATION, id=clean(allocation)))


def read(domain: etree._Element) -> Ownership | None:
    """The mark of a parsed domain; None where there is none, or none that makes sense."""
    mark = domain.find(_VM)
    if mark is None:
        return None
    try:
        return Ownership(
            fleet=_value(mark, "fleet"),
            vm=_value(mark, "name"),
            vm_id=_value(mark, "id"),
            generation=int(_value(mark, "generation")),
            allocations=tuple(_value(child, "id") for child in mark.iterfind(_ALLOCATION)),
        )
    except ValueError:
        return None  # a mark we did not write: such a domain is foreign, never ours to touch


def _value(element: etree._Element, name: str) -> str:
    value = element.get(name)
    if value is None:
        raise ValueError(f"a mark without {name}")
    return value
