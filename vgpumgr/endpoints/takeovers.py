"""The endpoint of takeovers: what would become of VMs of another manager."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typing_extensions import TypedDict

from vgpumgr.access.permission import Permission
from vgpumgr.endpoints.call_context import CallContext
from vgpumgr.endpoints.documents import Text
from vgpumgr.endpoints.endpoint import Endpoint, HttpMethod, ParameterLimits, Result, Runs
from vgpumgr.endpoints.shapes import Name
from vgpumgr.model.errors import Conflict, UsageError
from vgpumgr.model.formats import counted
from vgpumgr.model.vm import VmState

if TYPE_CHECKING:
    from vgpumgr.model.image import ImageRecord
    from vgpumgr.model.ledger import Ledger
    from vgpumgr.takeover import TakenDisk, TakenVm, TakeoverChoices

MAX_SOURCES = 1_000
_Pair = Annotated[str, ParameterLimits(min_length=3, max_length=600, pattern="^[^=]+=.")]
Pairs = Annotated[tuple[_Pair, ...], ParameterLimits(max_length=1_000)]


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeoverSources:
    """Descriptions of VMs: the ``texts`` of the files called ``names``, as ``manager`` writes them.
    ``gpus`` and ``bridges`` are ``THERE=HERE``: what a GPU part (an mdev type or UUID, a PCI
    address, a resource mapping) or a bridge of the source is here. ``mappings`` is the text of
    Proxmox's ``pci.cfg``. ``pool`` is the storage pool of the disks, ``tenant`` whose the VMs are.
    """

    manager: Literal["proxmox", "ovf", "libvirt"]
    names: Annotated[tuple[Name, ...], ParameterLimits(min_length=1, max_length=MAX_SOURCES)]
    texts: Annotated[tuple[Text, ...], ParameterLimits(min_length=1, max_length=MAX_SOURCES)]
    gpus: Pairs = ()
    bridges: Pairs = ()
    mappings: Text = ""
    pool: Name = "default"
    tenant: Name = "default"


class TakeoverFinding(TypedDict):
    """What becomes of one key of the source: ``kept``, ``changed`` or ``lost``."""

    key: str
    fate: str
    text: str


class TakeoverDisk(TypedDict):
    """A disk: ``volume`` is what holds it on the source, ``stems`` are names that a file with it
    may have, without their ending, ``fetch`` makes that file on the source (FOLDER: where it goes),
    ``image`` is the image that it is imported as. ``size_bytes`` 0: the source does not say.
    """

    key: str
    volume: str
    size_bytes: int
    stems: list[str]
    fetch: str
    image: str


class TakeoverItem(TypedDict):
    """A VM of another manager. ``vm`` is the document of the VM that it becomes, null where there
    is none; ``there``: the fleet has it already, and with a ``vm`` its creation was cut.
    ``problems`` keep it from being taken over, ``stop`` is what stops it on the source.
    ``leftover`` are images of its disks that are there still.
    """

    name: str
    source: str
    title: str
    there: bool
    problems: list[str]
    stop: str
    kept: int
    changed: int
    lost: int
    findings: list[TakeoverFinding]
    disks: list[TakeoverDisk]
    leftover: list[str]
    vm: Mapping[str, object] | None


class TakeoverList(TypedDict):
    """One for each description, in their order."""

    items: list[TakeoverItem]


def plan_takeover(context: CallContext, asked: TakeoverSources) -> Result[TakeoverList]:
    """Read descriptions, and say what would become of each VM; nothing is changed."""
    from vgpumgr import takeover

    if len(asked.names) != len(asked.texts):
        raise UsageError(
            f"{len(asked.names)} names and {len(asked.texts)} texts: give one for each"
        )
    choices = _choices(context.app.ledger, asked)
    fleet = [
        takeover.FleetVm(spec=vm.spec, uuid=vm.domain_uuid, unfinished=vm.state is VmState.RESERVED)
        for vm in context.reads.vms()
    ]
    pairs = list(zip(asked.names, asked.texts, strict=True))
    images = [each for each in context.reads.images() if each.retired_at is None]
    found = takeover.read(asked.manager, pairs, choices, fleet)
    items = [_item(each, images) for each in found]
    stuck = [each["name"] for each in items if each["problems"]]
    error = None
    if stuck:
        error = Conflict(
            f"{counted(len(stuck), 'VM')} cannot be taken over yet: {', '.join(stuck[:5])}",
            next="what is said of each, then the same command again",
        )
    return Result(answer={"items": items}, error=error)


def _choices(ledger: Ledger, asked: TakeoverSources) -> TakeoverChoices:
    from vgpumgr.engine.inventory.observation import learned_profiles
    from vgpumgr.takeover import TakeoverChoices, Unreadable
    from vgpumgr.takeover.proxmox_config import mapped_devices

    try:
        mapped = mapped_devices(asked.mappings)
    except Unreadable as error:
        raise UsageError("the resource mappings cannot be read", why=str(error)) from error
    choices = TakeoverChoices(
        gpus=dict(_pairs(asked.gpus)),
        types=_known_types(ledger),
        bridges=dict(_pairs(asked.bridges)),
        mapped=mapped,
        profiles=learned_profiles(ledger),
        pool=asked.pool,
        tenant=asked.tenant,
    )
    for key, value in choices.gpus.items():
        if not choices.knows(value):
            raise _unknown(key, value, choices)
    return choices


def _unknown(key: str, value: str, choices: TakeoverChoices) -> UsageError:
    from vgpumgr import catalog

    near = catalog.suggest(value, choices.profiles)
    return UsageError(
        f"{key}={value}: {value} is no profile and no board",
        why=f"did you mean {' or '.join(near)}?" if near else "",
        next="vgpumgr capacity lists profiles; a board, passthrough and none will do, too",
    )


def _pairs(texts: Iterable[str]) -> Iterable[tuple[str, str]]:
    for text in texts:
        key, equals, value = text.partition("=")
        if not (key and equals and value):
            raise UsageError(f"{text[:80]!r} is not THERE=HERE")
        yield key, value


def _known_types(ledger: Ledger) -> dict[str, str]:
    """The profiles of the mdev types that GPUs of the fleet have, where all agree."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for gpu in ledger.gpus():
        for types in (gpu.facts.mdev_types, *(vf.mdev_types for vf in gpu.facts.vfs)):
            for each in types:
                found[each.type_id].add(each.profile)
    return {type_id: min(names) for type_id, names in found.items() if len(names) == 1}


def _item(found: TakenVm, images: Sequence[ImageRecord]) -> TakeoverItem:
    from vgpumgr.spec.dump import vm_document
    from vgpumgr.takeover import Fate

    fates = [each.fate for each in found.findings]
    own = {each.image for each in found.disks}
    return {
        "name": found.name,
        "source": found.described.source,
        "title": found.described.title,
        "there": found.there,
        "problems": list(found.problems),
        "stop": found.described.stop,
        "kept": fates.count(Fate.KEPT),
        "changed": fates.count(Fate.CHANGED),
        "lost": fates.count(Fate.LOST),
        "findings": [
            {"key": each.key, "fate": each.fate.value, "text": each.text} for each in found.findings
        ],
        "disks": [_disk(each) for each in found.disks],
        "leftover": [
            each.reference
            for each in images
            if each.name in own and not found.made_from.isdisjoint({each.reference, each.volume})
        ],
        "vm": vm_document(found.spec) if found.spec else None,
    }


def _disk(found: TakenDisk) -> TakeoverDisk:
    source = found.source
    return {
        "key": source.key,
        "volume": source.volume,
        "size_bytes": source.size_bytes,
        "stems": list(source.stems),
        "fetch": source.fetch,
        "image": found.image,
    }


PLAN_TAKEOVER: Endpoint[TakeoverSources, Any] = Endpoint(
    name="takeover.plan",
    method=HttpMethod.POST,
    path="/takeovers:plan",
    permission=Permission.VM_PLAN,
    summary="What would become of VMs of another manager; nothing is changed.",
    asks=TakeoverSources,
    answers=TakeoverList,
    kind="TakeoverList",
    work=plan_takeover,
    runs=Runs.WORKER,
    scoped=True,
)

ENDPOINTS = (PLAN_TAKEOVER,)
