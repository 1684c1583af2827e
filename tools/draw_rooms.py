"""Draws docs/rooms.svg: the packages of vgpumgr and who imports whom, read from the code.

Layers come from the import-linter contract in pyproject.toml, arrows from the imports themselves.
`python tools/draw_rooms.py` rewrites the file; `--check` exits 1 when it is out of date.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

import grimp
from lxml import etree

ROOT = Path(__file__).parent.parent
TARGET = ROOT / "docs" / "rooms.svg"
SVG = "http://www.w3.org/2000/svg"
WIDTH, ROW, BOX_W, BOX_H = 1280, 92, 150, 44
ROLE = {
    "cli": "parse, call, print",
    "api": "HTTP, a route each",
    "client": "endpoints over HTTP",
    "endpoints": "what can be asked",
    "app": "settings, composition",
    "sim": "the simulated fleet",
    "engine": "plan, journal, execute",
    "hosts": "SSH, helper, bridge",
    "store": "the ledger",
    "identity": "who asks",
    "access": "who may do what",
    "checks": "is a host set up well",
    "gpu": "ways to give a GPU",
    "health": "is a GPU well",
    "power": "budgets and caps",
    "redfish": "BMCs and PDUs",
    "showback": "who used what",
    "image_inspection": "is a file an image",
    "layout": "how GPUs are partitioned",
    "virt": "libvirt by intent",
    "placement": "where VMs go, why not",
    "spec": "user YAML",
    "audit": "the trail, sealed",
    "domainxml": "model to XML and back",
    "catalog": "GPU facts as data",
    "helper": "runs on the host",
    "model": "values, errors, ports",
}


def layers() -> list[list[str]]:
    """The rooms, outermost layer first."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contract = settings["tool"]["importlinter"]["contracts"][0]
    return [
        [name.strip().removeprefix("vgpumgr.") for name in line.split("|")]
        for line in contract["layers"]
    ]


def imports(rooms: list[str]) -> list[tuple[str, str]]:
    """Which room imports which, from the code."""
    graph = grimp.build_graph("vgpumgr")
    for room in rooms:
        graph.squash_module(f"vgpumgr.{room}")
    return sorted(
        (room, found.removeprefix("vgpumgr."))
        for room in rooms
        for found in graph.find_modules_directly_imported_by(f"vgpumgr.{room}")
        if found.removeprefix("vgpumgr.") in rooms
    )


def centres(rows: list[list[str]]) -> dict[str, tuple[float, float]]:
    return {
        room: ((column + 0.5) * WIDTH / len(row), 40 + number * ROW)
        for number, row in enumerate(rows)
        for column, room in enumerate(row)
    }


def draw(rows: list[list[str]]) -> bytes:
    at = centres(rows)
    size = {"width": str(WIDTH), "height": str(20 + len(rows) * ROW)}
    svg = etree.Element(f"{{{SVG}}}svg", size, nsmap={None: SVG})
    svg.set("font-family", "sans-serif")
    add(svg, "rect", width="100%", height="100%", fill="#ffffff")
    marker = add(
        svg, "marker", id="a", markerWidth="7", markerHeight="7", refX="6", refY="3", orient="auto"
    )
    add(marker, "path", d="M0,0 L6,3 L0,6 z", fill="#7a8694")
    for source, target in imports(list(at)):
        (x1, y1), (x2, y2) = at[source], at[target]
        start, end = y1 + BOX_H / 2, y2 - BOX_H / 2
        middle = (start + end) / 2
        path = (
            f"M{x1:.0f},{start:.0f} C{x1:.0f},{middle:.0f} {x2:.0f},{middle:.0f} {x2:.0f},{end:.0f}"
        )
        style = {"stroke": "#9aa7b4", "stroke-width": "1.1", "marker-end": "url(#a)"}
        add(svg, "path", d=path, fill="none", **style)
    for room, (x, y) in at.items():
        left, top = x - BOX_W / 2, y - BOX_H / 2
        box = {"width": str(BOX_W), "height": str(BOX_H), "rx": "7"}
        add(svg, "rect", x=f"{left:.0f}", y=f"{top:.0f}", fill="#eef3f8", stroke="#35506b", **box)
        text(svg, x, y - 3, room, size="14", weight="bold")
        text(svg, x, y + 13, ROLE.get(room, ""), size="10", weight="normal")
    return etree.tostring(svg, pretty_print=True)


def add(parent: etree._Element, tag: str, **attributes: str) -> etree._Element:
    return etree.SubElement(parent, f"{{{SVG}}}{tag}", attributes)


def text(svg: etree._Element, x: float, y: float, words: str, *, size: str, weight: str) -> None:
    style = {"text-anchor": "middle", "font-size": size, "font-weight": weight, "fill": "#1d2b39"}
    add(svg, "text", x=f"{x:.0f}", y=f"{y:.0f}", **style).text = words


def main() -> int:
    picture = draw(layers())
    if "--check" in sys.argv:
        current = TARGET.is_file() and TARGET.read_bytes() == picture
        print("docs/rooms.svg is current" if current else "docs/rooms.svg is out of date")
        return 0 if current else 1
    TARGET.write_bytes(picture)
    return 0


if __name__ == "__main__":
    sys.exit(main())
