"""Trials: by which command a host is asked for what, and what puts things right again.

In a command ``{hosts}`` stands for all hosts it is about, as in ``mdev-{hosts}``; one with
``{host}`` is typed once for each, and ``{mdev}`` is the file with the document of that name.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.hostile.fleets import GOOD

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
    return ("vm", "delete", f"{name}-{{hosts}}", "--force", "-y")


def _apply(name: str) -> Words:
    return ("apply", "-f", f"{{{name}}}")


def _layout(name: str) -> Words:
    return ("layout", "apply", "-f", f"{{{name}}}", "-y")


def _life(name: str, fleet: str = "vgpu") -> Trial:
    """A VM made, stopped, started, gone."""
    stop, start = (
        ("vm", "stop", f"{name}-{{hosts}}", "--force"),
        ("vm", "start", f"{name}-{{hosts}}"),
    )
    return Trial(name, (_apply(name), stop, start, _gone(name)), (_gone(name),), fleet=fleet)


def _dead(name: str, verb: str, fleet: str = "vgpu") -> Trial:
    """A VM whose device was made, and nobody heard of it."""
    act = (_apply(name),)
    return Trial(f"{name} cut", act, (_gone(name),), dies=verb, fleet=fleet)


_CUT = (_layout("other"),)
_BACK = (_layout("layout"),)
_OUT = ("host", "remove", "{host}", "-y")
_IN = ("host", "add", "{host}", "--address", "sim://{host}")
_PROBE = ("host", "probe", "{hosts}")
_FIGURES = (("top",), ("metrics", "show"), ("balance", "plan"))
_RENAMED = (("vm", "rename", "mdev-{host}", "named-{host}"), _gone("named"))
_SNAPSHOT = ("vm", "snapshot", "create", "disk-{host}", "before")
_RESET = ("gpu", "reset", "{host}/0000:41:00.0", "-y")
_BACKUP = ("backup", "create", "disk-{host}")
_CLONE = ("vm", "clone", "disk-{host}", "copy-{host}")
_STOP = ("vm", "stop", "disk-{hosts}", "--force")
_MOVE = ("vm", "migrate", "moving-{host}", "--to", GOOD, "--cold", "--dry-run")

TRIALS = (
    Trial("probe", (_PROBE,), (_PROBE,), verbs=(PROBE,)),
    Trial("probe of a fabric", (_PROBE,), (_PROBE,), verbs=(PROBE,), fleet="fabric"),
    Trial("probe of layouts", (_PROBE,), (_PROBE,), verbs=(PROBE,), fleet="layouts"),
    Trial("doctor", (("doctor", "{host}"),), verbs=("examine", "kvm_probe")),
    Trial("figures", _FIGURES, verbs=("figures",)),
    Trial("rename", (_apply("mdev"), *_RENAMED), (_gone("mdev"), _gone("named"))),
    Trial("snapshot", (_apply("disk"), _SNAPSHOT, _gone("disk")), (_gone("disk"),)),
    Trial("backup", (_apply("disk"), _BACKUP, _gone("disk")), (_gone("disk"),)),
    Trial(
        "clone",
        (_apply("disk"), _STOP, _CLONE, _gone("copy"), _gone("disk")),
        (_gone("copy"), _gone("disk")),
    ),
    _life("sealed"),
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
    Trial("reset", (_RESET,), (_PROBE,), fleet="layouts"),
    Trial("upgrade", (("host", "upgrade", "{hosts}"),), fleet="layouts"),
    _life("pair", "fabric"),
    _dead("pair", "fabric_activate", "fabric"),
    Trial("move", (_MOVE,), fleet="fabric"),
)
