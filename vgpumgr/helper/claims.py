"""Claims: who holds a unit of this host, written durably before the unit is made.

They lie in the helper's state folder, whose other files are written by the same functions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from vgpumgr.helper import arguments, errors, wanted_state
from vgpumgr.helper.arguments import Call, Presented
from vgpumgr.helper.errors import HelperError
from vgpumgr.helper.system import System

FOLDER = "/var/lib/vgpumgr"
CLAIMS = f"{FOLDER}/claims"
EPOCH = f"{FOLDER}/epoch"  # one for all fleets: read where an older helper left it
EPOCHS = f"{FOLDER}/epochs"
KVM = f"{FOLDER}/kvm.json"
FLEETS = f"{FOLDER}/fleets"


def store_state(system: System, path: str, text: str) -> None:
    """Write durably; the error says that nothing else was done."""
    try:
        system.store(path, text)
    except OSError as error:
        raise errors.from_effect(error, f"{path} could not be written") from error


def remove_state(system: System, path: str) -> None:
    """Remove durably; a file that is gone already is no error."""
    try:
        system.remove(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise errors.from_effect(error, f"{path} could not be removed") from error


Claim = dict[str, Any]

_SUFFIX = ".json"
_FIELDS = {
    "unit": str,
    "fleet": str,
    "epoch": int,
    "allocation": str,
    "generation": int,
    "vm": str,
    "wanted": dict,
}


def load(system: System, unit: str) -> Claim | None:
    """The claim on a unit, or None; ``unknown`` when it is there but cannot be understood."""
    try:
        text = system.read(_path(unit))
    except FileNotFoundError:
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _damaged(unit, str(error)) from error
    if not isinstance(found, dict):
        raise _damaged(unit, "no object")
    for name, kind in _FIELDS.items():
        if not isinstance(found.get(name), kind):
            raise _damaged(unit, f"field {name!r} is missing or of another type")
    if found["unit"] != unit:
        raise _damaged(unit, f"it speaks of {found['unit']}")
    try:
        wanted_state.check(found["wanted"])
    except HelperError as error:
        raise _damaged(unit, error.message) from error
    return found


def units(system: System) -> tuple[str, ...]:
    """The units that carry a claim, sorted."""
    if not system.exists(CLAIMS):
        return ()
    names = system.list(CLAIMS)
    return tuple(name[: -len(_SUFFIX)] for name in names if name.endswith(_SUFFIX))


def every(system: System) -> Iterator[tuple[str, Claim | None, str]]:
    """Each unit with its claim, or with None and why it could not be read."""
    for unit in units(system):
        try:
            yield unit, load(system, unit), ""
        except HelperError as error:
            yield unit, None, f"{error.message}: {error.why}"
        except OSError as error:
            yield unit, None, errors.reason(error)


def answer(call: Call) -> dict[str, Any]:
    """The ``claims`` verb; one damaged claim makes the answer unknown."""
    return {"claims": [load(call.system, unit) for unit in units(call.system)]}


def rename(call: Call) -> dict[str, Any]:
    """The ``claim_rename`` verb: all that an allocation claims names the presented VM. What it has
    claimed stays as it is.
    """
    presented = arguments.claim(call.args, "claim")
    held = [(unit, load(call.system, unit)) for unit in units(call.system)]
    mine = [claim for _, claim in held if claim is not None and _ours(call, claim, presented)]
    for claim in mine:
        if claim["vm"] != presented.vm:
            rewrite(call.system, {**claim, "vm": presented.vm})
    return {"units": [claim["unit"] for claim in mine]}


def may_take(call: Call, unit: str, presented: Presented) -> Claim | None:
    """Our own claim on the unit, None when it is free; refuse anybody else's."""
    found = load(call.system, unit)
    if found is not None and not _ours(call, found, presented):
        raise _mismatch(unit, presented, found)
    return found


def must_hold(call: Call, unit: str, presented: Presented) -> Claim:
    """Our own claim on the unit; refuse an absent one and anybody else's."""
    found = may_take(call, unit, presented)
    if found is None:
        raise HelperError(
            errors.CLAIM_MISMATCH, f"{unit} carries no claim of ours", "it was not made by vgpumgr"
        )
    return found


def put(call: Call, unit: str, presented: Presented, want: dict[str, Any]) -> None:
    """Write the claim; it is on disk when this returns."""
    claim = {
        "unit": unit,
        "fleet": call.fleet,
        "epoch": call.epoch,
        "allocation": presented.allocation,
        "generation": presented.generation,
        "vm": presented.vm,
        "wanted": want,
    }
    rewrite(call.system, claim)


def rewrite(system: System, claim: Claim) -> None:
    """Write a claim that was read, changed; it is on disk when this returns."""
    store_state(system, _path(claim["unit"]), json.dumps(claim) + "\n")


def require_same(held: Claim, asked: dict[str, Any]) -> None:
    """Refuse where the claim that is there wants something else than is asked for now.

    Who makes the GPU instance was settled when the claim was written.
    """
    if _content(held["wanted"]) != _content(asked):
        there, new = json.dumps(_content(held["wanted"])), json.dumps(_content(asked))
        message = f"{held['unit']} is claimed for something else"
        raise HelperError(errors.CLAIM_MISMATCH, message, f"claimed: {there}, asked: {new}")


def drop(system: System, unit: str) -> None:
    """Forget the claim; a missing one is no error."""
    remove_state(system, _path(unit))


def _path(unit: str) -> str:
    return f"{CLAIMS}/{unit}{_SUFFIX}"


def _content(want: dict[str, Any]) -> dict[str, Any]:
    instance = want.get("instance")
    content = {name: value for name, value in want.items() if value not in (None, {})}
    return {**content, "instance": {**instance, "make": None}} if instance else content


def _ours(call: Call, found: Claim, presented: Presented) -> bool:
    held = (found["fleet"], found["allocation"], found["generation"])
    return held == (call.fleet, presented.allocation, presented.generation)


def _mismatch(unit: str, presented: Presented, found: Claim) -> HelperError:
    return HelperError(
        errors.CLAIM_MISMATCH,
        f"{unit} is claimed otherwise",
        f"claimed by allocation {found['allocation']} generation {found['generation']} of fleet "
        f"{found['fleet']}, presented {presented.allocation} generation {presented.generation}",
    )


def _damaged(unit: str, why: str) -> HelperError:
    return HelperError(errors.UNKNOWN, f"the claim on {unit} is damaged", why)
