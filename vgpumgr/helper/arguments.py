"""One call of a verb, and the helper's own checks of its arguments (``bad-argument``)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from vgpumgr.helper.durable_files import TEMPORARY
from vgpumgr.helper.errors import BAD_ARGUMENT, HelperError
from vgpumgr.helper.system import System


@dataclass(frozen=True)
class Call:
    """What a verb is given. ``fleet`` is empty and ``epoch`` 0 where no controller speaks."""

    system: System
    args: Mapping[str, Any]
    fleet: str = ""
    epoch: int = 0


_PCI = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
# A directory name in sysfs: no slash, no leading dot.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:+-]{0,127}")
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}")
# Of LVM's and Ceph's, as far as ours go: no option, no path, no snapshot.
_VOLUME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,127}")
_FILE_NAME = re.compile(r"[^/]{1,250}")
_PATH = re.compile(r"(/[^/\x00]+)+/?")

_MAX_NUMBER = 2**63 - 1
_MAX_FUNCTIONS = 8  # of one PCI slot
_MAX_NUMBERS = 64
_MAX_PATH = 4096


@dataclass(frozen=True)
class Presented:
    """The claim as a caller presents it."""

    allocation: str
    generation: int
    vm: str


def bad(name: str, what: str) -> NoReturn:
    """Refuse an argument by name."""
    raise HelperError(BAD_ARGUMENT, f"argument {name!r} is {what}")


def known(given: Mapping[str, object], allowed: Sequence[str]) -> None:
    """Refuse arguments the verb does not take."""
    for name in given:
        if name not in allowed:
            bad(name, f"not one this verb takes ({', '.join(allowed) or 'it takes none'})")


def pci(args: Mapping[str, Any], name: str) -> str:
    """A PCI address as the kernel prints it, lower case."""
    return _matching(args, name, _PCI, "no PCI address like 0000:41:00.0")


def pci_list(args: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """Distinct PCI addresses; none when the argument is absent."""
    given = args.get(name, [])
    if not isinstance(given, list) or len(given) >= _MAX_FUNCTIONS:
        bad(name, f"no list of fewer than {_MAX_FUNCTIONS} PCI addresses")
    addresses = tuple(pci({name: item}, name) for item in given)
    if len(set(addresses)) != len(addresses):
        bad(name, "a list that names an address twice")
    return addresses


def uuid(args: Mapping[str, Any], name: str) -> str:
    """A UUID of 36 characters, lower case (the kernel prints it so)."""
    return _matching(args, name, _UUID, "no lower-case UUID of 36 characters")


def sysfs_name(args: Mapping[str, Any], name: str) -> str:
    """One name in a sysfs directory: a parent or a type id."""
    return _matching(args, name, _NAME, "no name that sysfs could list")


def path(args: Mapping[str, Any], name: str) -> str:
    """An absolute path without ``.`` or ``..`` components."""
    value = _matching(args, name, _PATH, "no absolute path")
    if len(value) > _MAX_PATH or {".", ".."} & set(value.split("/")):
        bad(name, "too long, or has . or .. in it")
    return value.rstrip("/")


def volume(args: Mapping[str, Any], name: str) -> str:
    """The name of a volume group, or of a volume in it or in a pool of Ceph's."""
    return _matching(args, name, _VOLUME, "no name of a volume")


def file_name(args: Mapping[str, Any], name: str) -> str:
    """A printable name of one file: no slash, neither ``.`` nor ``..``."""
    value = _matching(args, name, _FILE_NAME, "no name of a file")
    if not value.isprintable() or value in {".", ".."}:
        bad(name, "no name of a file")
    return value


def identifier(args: Mapping[str, Any], name: str) -> str:
    """An id that the ledger made."""
    return _matching(args, name, _ID, "no id of letters, digits and -_.:")


def fleet(args: Mapping[str, Any]) -> str:
    """A fleet's id, which is a file's name: never one of a write that is under way."""
    value = identifier(args, "fleet")
    if value.endswith(TEMPORARY):
        bad("fleet", f"an id that ends with {TEMPORARY}")
    return value


def number(args: Mapping[str, Any], name: str) -> int:
    """A whole number from 0."""
    value = args.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MAX_NUMBER:
        bad(name, "no whole number from 0")
    return value


def optional_number(args: Mapping[str, Any], name: str) -> int | None:
    """A whole number from 0; None when the argument is absent or null."""
    return None if args.get(name) is None else number(args, name)


def numbers(args: Mapping[str, Any], name: str) -> tuple[int, ...]:
    """Whole numbers from 0, in order."""
    given = args.get(name)
    if not isinstance(given, list) or len(given) > _MAX_NUMBERS:
        bad(name, f"no list of at most {_MAX_NUMBERS} numbers")
    return tuple(number({name: item}, name) for item in given)


def flag(args: Mapping[str, Any], name: str) -> bool:
    """True or false."""
    value = args.get(name)
    if not isinstance(value, bool):
        bad(name, "neither true nor false")
    return value


def choice(args: Mapping[str, Any], name: str, allowed: Sequence[str]) -> str:
    """One word of a few."""
    value = args.get(name)
    if not isinstance(value, str) or value not in allowed:
        bad(name, f"none of {', '.join(allowed)}")
    return value


def claim(args: Mapping[str, Any], name: str) -> Presented:
    """The claim object of a verb that changes."""
    given = args.get(name)
    if not isinstance(given, dict):
        bad(name, "no object")
    known(given, ("allocation", "generation", "vm"))
    vm = given.get("vm")
    if not isinstance(vm, str) or not vm.isprintable() or not 0 < len(vm) <= 255:
        bad("vm", "no printable name of at most 255 characters")
    return Presented(identifier(given, "allocation"), number(given, "generation"), vm)


def _matching(args: Mapping[str, Any], name: str, form: re.Pattern[str], what: str) -> str:
    value = args.get(name)
    if not isinstance(value, str) or not form.fullmatch(value):
        bad(name, what)
    return value
