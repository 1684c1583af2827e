"""Trials: by which command a host is asked for what, and what puts things right again."""

from __future__ import annotations

from dataclasses import dataclass

from tests.hostile.fleets import BAD, GOOD

PROBE = "probe"
Words = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Trial:
    """Commands that ask a host by some verbs, and those that put things right again.

    ``dies`` is a verb at which the process of the first command is gone; what it began is looked
    at when it is gone on with. ``verbs`` alone are lied about, any but ``probe`` where it is empty.
    """

    name: str
    act: tuple[Words, ...]
    mend: tuple[Words, ...] = ()
    verbs: tuple[str, ...] = ()
    dies: str = ""
    fleet: str = "vgpu"


def _gone(name: str) -> Words:
    return ("vm", "delete", name, "--force", "-y")


def _apply(name: str) -> Words:
    return ("apply", "-f", f"{{{name}}}")


def _layout(name: str) -> Words:
    return ("layout", "apply", "-f", f"{{{name}}}", "-y")


def _life(name: str, fleet: str = "vgpu") -> Trial:
    """A VM made, stopped, started, gone."""
    stop, start = ("vm", "stop", name, "--force"), ("vm", "start", name)
    return Trial(name, (_apply(name), stop, start, _gone(name)), (_gone(name),), fleet=fleet)


def _dead(name: str, verb: str, fleet: str = "vgpu") -> Trial:
    """A VM whose device was made, and nobody heard of it."""
    act = (_apply(name),)
    return Trial(f"{name} cut", act, (_gone(name),), dies=verb, fleet=fleet)


_CUT = (_layout("other"),)
_BACK = (_layout("layout"),)
_OUT, _IN = ("host", "remove", BAD, "-y"), ("host", "add", BAD, "--address", f"sim://{BAD}")
_PROBE = ("host", "probe", BAD)
_MOVE = ("vm", "migrate", "moving", "--to", GOOD, "--cold", "--dry-run")

TRIALS = (
    Trial("probe", (_PROBE,), (_PROBE,), verbs=(PROBE,)),
    Trial("probe of a fabric", (_PROBE,), (_PROBE,), verbs=(PROBE,), fleet="fabric"),
    Trial("probe of layouts", (_PROBE,), (_PROBE,), verbs=(PROBE,), fleet="layouts"),
    Trial("doctor", (("doctor", BAD),), verbs=("examine", "kvm_probe")),
    _life("mdev"),
    _life("vf"),
    _life("instance"),
    _life("whole"),
    _life("disk"),
    _dead("mdev", "mdev_create"),
    _dead("vf", "vgpu_create"),
    _dead("instance", "vgpu_create"),
    _dead("whole", "vfio_bind"),
    Trial("layout", (*_CUT, *_BACK), _BACK),
    Trial("layout cut", _CUT, _BACK, dies="gi_create"),
    Trial("layout kept", _CUT, _BACK, dies="layout_claim"),
    Trial("modes", (*_CUT, *_BACK), _BACK, fleet="layouts"),
    Trial("modes cut", _CUT, _BACK, dies="mig_mode_set", fleet="layouts"),
    Trial("out and in", (_OUT, _IN), (_IN, *_BACK), fleet="layouts"),
    Trial("upgrade", (("host", "upgrade", BAD),), fleet="layouts"),
    _life("pair", "fabric"),
    _dead("pair", "fabric_activate", "fabric"),
    Trial("move", (_MOVE,), fleet="fabric"),
)
