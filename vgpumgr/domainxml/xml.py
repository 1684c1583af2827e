"""The one parser for XML that others wrote: no entities, no network, no DTD, bounded."""

from __future__ import annotations

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
