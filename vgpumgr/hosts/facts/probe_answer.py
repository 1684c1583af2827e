"""A helper's answer to a probe, part by part: what it tells, and what is the same as before."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from vgpumgr.hosts.facts.host_facts import PARTS, PartFields
from vgpumgr.hosts.facts.typed_answer import TypedAnswer

_DIGEST = re.compile(r"[0-9a-f]{32}")
_MOST_PARTS = 64
_LIBVIRT = "libvirt"


@dataclass(frozen=True, slots=True)
class AnswerParts:
    """Every part of a probe, checked and read, with the digests that the helper gave them.

    ``libvirt`` is the fingerprint of libvirt's state; empty where the helper tells none.
    """

    parts: Mapping[str, PartFields]
    digests: Mapping[str, str] = field(default_factory=dict)
    libvirt: str = ""

    def without_digests(self) -> AnswerParts:
        """The same, of which nothing can be presented."""
        return replace(self, digests={})

    def is_same(self, other: AnswerParts, *parts: str) -> bool:
        """Are these parts, or all of them, the same objects?"""
        return all(self.parts[part] is other.parts[part] for part in parts or PARTS)


def read_answer(
    host: str, answer: Mapping[str, object], known: AnswerParts | None = None
) -> AnswerParts:
    """The whole answer: what it leaves out is taken from ``known``, whose digests were presented.

    A part that was told anew and is as before is that of ``known``, the same object. Raises
    OutcomeUnknown naming what is invalid: a part out of range, or one said to be as known
    whose digest is another, or was not presented.
    """
    told = TypedAnswer(answer, host=host)
    digests = _digests(told)
    same = _same(told, digests, known)
    parts = {
        part: known.parts[part] if known is not None and part in same else _read(part, told, known)
        for part in PARTS
    }
    kept = {part: digest for part, digest in digests.items() if part in PARTS}
    return AnswerParts(parts, kept, digests.get(_LIBVIRT, ""))


def _read(part: str, told: TypedAnswer, known: AnswerParts | None) -> PartFields:
    fields = PARTS[part](told)
    return known.parts[part] if known is not None and known.parts[part] == fields else fields


def _digests(told: TypedAnswer) -> dict[str, str]:
    given = told.child("digests")
    found = {part: given.text(part) for part in given.names(most=_MOST_PARTS)}
    for part, digest in found.items():
        if _DIGEST.fullmatch(digest) is None:
            raise given.nonsense(part, digest, "32 hexadecimal digits")
    return found


def _same(
    told: TypedAnswer, digests: Mapping[str, str], known: AnswerParts | None
) -> frozenset[str]:
    presented = known.digests if known is not None else {}
    same = told.texts("same", most=_MOST_PARTS)
    for part in same:
        if part not in presented or digests.get(part) != presented[part]:
            raise told.nonsense("same", part, "a part whose digest was presented")
    return frozenset(same)
