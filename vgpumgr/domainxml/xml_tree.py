"""XML trees: the one parser for XML of others, and templates from ``xml-templates/``.

The parser takes no entities, no network and no DTD, and is bounded. Templates are filled by
path: user text can only ever become text.
"""

from __future__ import annotations

import copy
import re
from functools import cache
from importlib import resources

from lxml import etree

MAX_BYTES = 1 << 20

_PARSER = etree.XMLParser(
    encoding="utf-8",  # overrides a declaration: the text was decoded before it came here
    resolve_entities=False,
    no_network=True,
    load_dtd=False,
    dtd_validation=False,
    huge_tree=False,
    remove_comments=True,
    remove_pis=True,
)


def untrusted(text: str, root: str) -> etree._Element:
    """The root element of ``text``.

    Raises ValueError when it is over 1 MiB, carries a DOCTYPE, is not well-formed, or its root
    is not called ``root``.
    """
    data = text.encode()
    if len(data) > MAX_BYTES:
        raise ValueError(f"XML of {len(data)} bytes: at most {MAX_BYTES} are read")
    if "<!DOCTYPE" in text:
        raise ValueError("XML with a DOCTYPE is not read")
    try:
        element = etree.fromstring(data, _PARSER)
    except etree.XMLSyntaxError as error:
        raise ValueError(f"not well-formed XML: {error}") from error
    if element.tag != root:
        raise ValueError(f"<{root}> expected, found <{element.tag}>")
    return element


# Control characters (C0, DEL, C1), lone surrogates and the two non-characters XML forbids.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


class XmlTree:
    """One XML tree being filled. Paths are ElementPath; a last step ``@name`` is an attribute."""

    def __init__(self, root: etree._Element) -> None:
        self.root = root

    def set(self, path: str, value: str | int) -> None:
        """Set an element's text or an attribute.

        Raises ValueError for a control character, KeyError for a path the template has not.
        """
        where, attribute = _split(path)
        if attribute:
            self._find(where).set(attribute, clean(value))
        else:
            self._find(where).text = clean(value)

    def drop(self, path: str) -> None:
        """Remove an element, or an attribute."""
        where, attribute = _split(path)
        element = self._find(where)
        if attribute:
            del element.attrib[attribute]
            return
        parent = element.getparent()
        assert parent is not None, "the root is never dropped"
        parent.remove(element)

    def append(self, path: str, child: XmlTree) -> None:
        """Add ``child`` as the last child of the element at ``path``."""
        self._find(path).append(child.root)

    def add(self, path: str, tag: str, text: str | int = "", /, **attributes: str | int) -> None:
        """Add one element with text and attributes at the end of the element at ``path``."""
        cleaned = {name: clean(value) for name, value in attributes.items()}
        child = etree.SubElement(self._find(path), tag, cleaned)
        child.text = clean(text) or None

    def text(self) -> str:
        """The XML, indented, ending in a newline."""
        etree.indent(self.root, space="  ")
        return etree.tostring(self.root, encoding="unicode") + "\n"

    def _find(self, path: str) -> etree._Element:
        if not path:
            return self.root
        element = self.root.find(path)
        if element is None:
            raise KeyError(path)
        return element


def template(name: str) -> XmlTree:
    """A fresh copy of the template ``xml-templates/NAME.xml``."""
    return XmlTree(copy.deepcopy(_parsed(name)))


def clean(value: str | int) -> str:
    """The value as text that XML can carry; ValueError for control characters."""
    text = str(value)
    if found := _UNSAFE.search(text):
        raise ValueError(f"{text!r} contains {found.group()!r}, which XML text must not")
    return text


def _split(path: str) -> tuple[str, str]:
    """``a/b/@c`` → (``a/b``, ``c``); ``a/b`` → (``a/b``, nothing)."""
    if path.startswith("@"):
        return "", path[1:]
    where, slash, attribute = path.rpartition("/@")
    return (where, attribute) if slash else (path, "")


@cache
def _parsed(name: str) -> etree._Element:
    source = resources.files("vgpumgr.domainxml").joinpath("templates", *f"{name}.xml".split("/"))
    parser = etree.XMLParser(remove_blank_text=True, remove_comments=True, no_network=True)
    return etree.fromstring(source.read_bytes(), parser)
