"""The series of one host, from what its ``figures`` tell: what the host knows without a ledger."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from vgpumgr.helper.figure_families import (
    DURATION_FAMILY,
    GPU_FAMILIES,
    GPU_INFO_FAMILY,
    HUNG_FAMILY,
    INSTANCE_FAMILIES,
    LAST_XID_FAMILY,
    UP_FAMILY,
    VGPU_FAMILIES,
    VGPU_INFO_FAMILY,
    XID_FAMILY,
    XIDS_FROM_ZERO,
)
from vgpumgr.helper.figure_table import (
    AER_FIGURES,
    GPU_FIGURES,
    INSTANCE_FIGURES,
    VGPU_FIGURES,
    Figure,
)
from vgpumgr.helper.series_text import BaseUnit, family_text, head_text, label_text, value_text

# Codes of one GPU that have series: those from zero, and the most frequent others.
MOST_XIDS = 16
FAMILIES = (
    *(UP_FAMILY, DURATION_FAMILY, HUNG_FAMILY, GPU_INFO_FAMILY),
    *(*GPU_FAMILIES, XID_FAMILY, LAST_XID_FAMILY, VGPU_INFO_FAMILY),
    *(*VGPU_FAMILIES, *INSTANCE_FAMILIES),
)
_NVIDIA = "nvidia"
_ZEROES = dict.fromkeys(map(str, XIDS_FROM_ZERO), 0)
Line = tuple[str, str, str]
"""Family, text of the labels, value."""


def xid_counts(
    xids: Mapping[str, int] | None, driver: str | None, figures: Mapping[str, int]
) -> Iterator[tuple[str, int]]:
    """Codes that have never been seen are there at 0; of a GPU that is given away there are errors
    of PCIe instead.
    """
    if xids is None:
        for name in AER_FIGURES if driver != _NVIDIA else ():
            if name in figures:
                yield name.replace("_", "-"), figures[name]
        return
    counts = {**_ZEROES, **xids}
    others = sorted(counts.keys() - _ZEROES.keys(), key=lambda code: (-counts[code], int(code)))
    for code in (*_ZEROES, *others[: MOST_XIDS - len(_ZEROES)]):
        yield code, counts[code]


def text(host: str, told: Mapping[str, Any] | None, took_s: float, *, details: bool) -> str:
    """The exposition of a host by its name. ``told`` is the answer of the verb ``figures``, None
    where there was none; ``details``: all series.
    """
    lines: dict[str, list[str]] = {}
    for family, labels, value in _lines(host, told, took_s, details=details):
        lines.setdefault(family, []).append(f"{head_text(family, labels)}{value}\n")
    found = (each for each in FAMILIES if each.name in lines)
    return "".join(f"{family_text(each)}{''.join(lines[each.name])}" for each in found)


def _lines(
    host: str, told: Mapping[str, Any] | None, took_s: float, *, details: bool
) -> Iterator[Line]:
    labels = label_text({"host": host})
    yield UP_FAMILY.name, labels, str(int(told is not None))
    yield DURATION_FAMILY.name, labels, value_text(round(took_s, 4))
    yield HUNG_FAMILY.name, labels, str(int(told is None or told["hung"]))
    if told is not None:
        for number, gpu in enumerate(sorted(told["gpus"], key=lambda each: each["address"])):
            named = {"host": host, "UUID": gpu["uuid"] or gpu["address"], "gpu": str(number)}
            yield from _of_gpu(label_text(named), gpu, told["driver"] or "", details=details)


def _of_gpu(base: str, gpu: Mapping[str, Any], driver: str, *, details: bool) -> Iterator[Line]:
    info = {
        "pci": gpu["address"],
        "driver": driver if gpu["answered"] else gpu["driver"] or "",
        "vbios": gpu["vbios"] or "",
    }
    yield GPU_INFO_FAMILY.name, f"{base},{label_text(info)}", "1"
    yield from _figures(GPU_FIGURES, base, gpu["figures"], details=details)
    for code, count in xid_counts(gpu["xids"], gpu["driver"], gpu["figures"]):
        yield XID_FAMILY.name, f"{base},{label_text({'xid': code})}", str(count)
    if gpu["last_xid"] is not None:
        yield LAST_XID_FAMILY.name, base, value_text(gpu["last_xid"])
    for each in gpu["vgpus"] or ():
        name = each["mdev"] or each["uuid"] or str(each["number"])
        own = f"{base},{label_text({'vgpu': name})}"
        yield VGPU_INFO_FAMILY.name, f"{own},{label_text({'domain': each['vm'] or ''})}", "1"
        yield from _figures(VGPU_FIGURES, own, each["figures"], details=details)
    for each in gpu["instances"] or ():
        own = f"{base},{label_text({'gi': str(each['id'])})}"
        yield from _figures(INSTANCE_FIGURES, own, each["figures"], details=details)


def _figures(
    table: Sequence[Figure], base: str, figures: Mapping[str, int], *, details: bool
) -> Iterator[Line]:
    for each in table:
        if each.name in figures and (details or not each.detail):
            labels = label_text(dict(each.labels))
            inside = f"{base},{labels}" if labels else base
            yield each.family, inside, BaseUnit(each.scale).text(figures[each.name])
