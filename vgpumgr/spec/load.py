"""Documents, and the mix of the settings, read into model values or one error with every fault."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from pydantic import Field, ValidationError

from vgpumgr.model.flavour import Flavour
from vgpumgr.model.formats import parse_mib
from vgpumgr.model.host import HostRecord
from vgpumgr.model.layout import LayoutSpec
from vgpumgr.model.pool import PoolSpec
from vgpumgr.model.power import PowerBudget
from vgpumgr.model.rolling import RollingVms
from vgpumgr.model.sim_fleet import SimFleet
from vgpumgr.model.vm import VmSpec
from vgpumgr.spec.fields import API_VERSION, Memory, Strict
from vgpumgr.spec.flavour_document import FlavourModel, fill, first
from vgpumgr.spec.fleet_document import FleetModel
from vgpumgr.spec.host_document import HostModel
from vgpumgr.spec.layout_document import LayoutModel
from vgpumgr.spec.pool_document import PoolModel
from vgpumgr.spec.power_document import PowerBudgetModel
from vgpumgr.spec.spec_file import (
    START,
    FileMark,
    Path,
    SpecFindings,
    YamlTree,
    did_you_mean,
    either,
    nearest,
    shown,
    trees,
)
from vgpumgr.spec.validation_messages import report
from vgpumgr.spec.vm_document import MAX_GPUS, GpuModel, VmModel

MAX_BYTES = 1 << 20
MAX_VMS = 10_000
MAX_NAME = 63
MAX_HEAD_KEYS = 64

Model = VmModel | HostModel | FleetModel | LayoutModel | PoolModel | FlavourModel | PowerBudgetModel

KINDS: Mapping[str, type[Model]] = MappingProxyType(
    {
        "Host": HostModel,
        "VM": VmModel,
        "Layout": LayoutModel,
        "Pool": PoolModel,
        "Flavour": FlavourModel,
        "Fleet": FleetModel,
    }
)

"""The kinds whose keys have pages and a schema of their own."""
_MODELS: Mapping[str, type[Model]] = MappingProxyType({**KINDS, "PowerBudget": PowerBudgetModel})


@dataclass(frozen=True, slots=True)
class Documents:
    """What a file asks for, in its order, replicas and counts expanded. ``lines`` is where the
    document of a kind and name begins, ``numbers`` which document that is (counted from 1; 0 where
    the file has one alone), ``of_no_tenant`` are the VMs and pools that name no tenant.
    ``rolling`` are the VMs that change in waves.
    """

    vms: tuple[VmSpec, ...] = ()
    hosts: tuple[HostRecord, ...] = ()
    fleets: tuple[SimFleet, ...] = ()
    layouts: tuple[LayoutSpec, ...] = ()
    pools: tuple[PoolSpec, ...] = ()
    flavours: tuple[Flavour, ...] = ()
    budgets: tuple[PowerBudget, ...] = ()
    lines: Mapping[tuple[str, str], int] = field(default_factory=dict, compare=False)
    numbers: Mapping[tuple[str, str], int] = field(default_factory=dict, compare=False)
    of_no_tenant: frozenset[tuple[str, str]] = field(default=frozenset(), compare=False)
    rolling: RollingVms = field(default_factory=dict)


def load(
    data: bytes | str,
    source: str,
    known_profiles: frozenset[str] = frozenset(),
    flavours: Iterable[Flavour] = (),
) -> Documents:
    """Read YAML documents; ``source`` is the file's name in messages.

    ``known_profiles`` are profile names learned from probed hosts, next to the catalogue's,
    ``flavours`` the fleet's: the file's own come before these. Raises SpecError with every problem
    found (UnknownProfiles when that is all that is wrong).
    """
    findings = SpecFindings(source)
    text = decoded(data, findings)
    findings.raise_if_any()
    reader = _Reader(known_profiles, findings, {each.name: each for each in flavours})
    for tree in first(trees(text, findings)):
        reader.take(tree)
    findings.raise_if_any()
    return Documents(
        vms=tuple(reader.vms()),
        hosts=tuple(reader.hosts),
        fleets=tuple(reader.fleets),
        layouts=tuple(reader.layouts),
        pools=tuple(reader.pools),
        flavours=tuple(reader.flavours),
        budgets=tuple(reader.budgets),
        lines=reader.lines,
        numbers={key: findings.number(line) for key, line in reader.lines.items()},
        of_no_tenant=frozenset(reader.of_no_tenant),
        rolling=reader.rolling(),
    )


def kinds(data: bytes | str) -> frozenset[str]:
    """The kinds that a file names, whatever else is in it; nothing of it is checked."""
    findings = SpecFindings("")
    text = decoded(data, findings)
    found = (tree.data.get("kind") for tree in trees(text, findings) if isinstance(tree.data, dict))
    return frozenset(each for each in found if isinstance(each, str))


def decoded(data: bytes | str, findings: SpecFindings) -> str:
    """The text of a file of at most MAX_BYTES; what is refused goes to ``findings``."""
    if len(data) > MAX_BYTES:
        findings.add(START, "the file is larger than 1 MiB: split it")
        return ""
    if isinstance(data, str):
        data = data.encode(errors="surrogatepass")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        mark = FileMark(before.count(b"\n") + 1, len(before) - before.rfind(b"\n"))
        findings.add(mark, f"not UTF-8 text: byte 0x{data[error.start]:02x}")
        return ""


@dataclass(slots=True)
class _Reader:
    """Takes documents one by one; names must be unique among all of a kind."""

    known_profiles: frozenset[str]
    findings: SpecFindings
    known_flavours: dict[str, Flavour] = field(default_factory=dict)
    flavours: list[Flavour] = field(default_factory=list)
    budgets: list[PowerBudget] = field(default_factory=list)
    hosts: list[HostRecord] = field(default_factory=list)
    fleets: list[SimFleet] = field(default_factory=list)
    layouts: list[LayoutSpec] = field(default_factory=list)
    pools: list[PoolSpec] = field(default_factory=list)
    lines: dict[tuple[str, str], int] = field(default_factory=dict)
    of_no_tenant: set[tuple[str, str]] = field(default_factory=set)
    _vms: list[VmModel] = field(default_factory=list)
    _vm_count: int = 0
    _named: dict[tuple[str, str], FileMark] = field(default_factory=dict)

    def take(self, tree: YamlTree) -> None:
        kind = _kind_of(tree, self.findings)
        if kind is None:
            return
        fill(tree, self.known_flavours, self.findings)
        try:
            context = {"profiles": self.known_profiles}
            model = _MODELS[kind].model_validate(tree.data, context=context)
        except ValidationError as error:
            errors = error.errors(include_url=False)
            report(errors, _MODELS[kind], tree, self.known_profiles, self.findings)
        else:
            self._keep(model, tree)

    def vms(self) -> Iterable[VmSpec]:
        """The VMs, replicas expanded."""
        for model in self._vms:
            value = model.value()
            yield from (replace(value, name=name) for name in model.names())

    def rolling(self) -> RollingVms:
        """The VMs that change in waves: those of one document are a group."""
        return {
            name: model.rolling.value(model.name)
            for model in self._vms
            if model.rolling
            for name in model.names()
        }

    def _keep(self, model: Model, tree: YamlTree) -> None:
        names = model.names() if isinstance(model, VmModel) else [model.name]
        self.lines.update(((model.kind, name), tree.start.line) for name in names)
        if "tenant" not in model.model_fields_set:
            self.of_no_tenant.update((model.kind, name) for name in names)
        match model:
            case VmModel():
                self._keep_vm(model, tree)
            case HostModel():
                self._name("host name", [model.name], tree, ("name",))
                self.hosts.append(model.value())
            case LayoutModel():
                self._name("layout name", [model.name], tree, ("name",))
                self.layouts.append(model.value())
            case PoolModel():
                self._name("pool name", [model.name], tree, ("name",))
                path = ("names",) if model.names else ("name",)
                self._name("VM name", model.desktop_names(), tree, path)
                self.pools.append(model.value())
            case FleetModel():
                self._keep_fleet(model, tree)
            case PowerBudgetModel():
                self._name("power budget", [model.name], tree, ("name",))
                self.budgets.append(model.value())
            case FlavourModel():
                self._name("flavour name", [model.name], tree, ("name",))
                self.flavours.append(model.value(tree.data))
                self.known_flavours[model.name] = self.flavours[-1]

    def _keep_vm(self, model: VmModel, tree: YamlTree) -> None:
        self._vm_count += len(model.names())
        if self._vm_count > MAX_VMS:
            mark = tree.value_mark(("replicas",))
            self.findings.add(mark, f"a file asks for at most {MAX_VMS} VMs in all", ("replicas",))
            return
        self._name("VM name", model.names(), tree, ("name",))
        self._vms.append(model)

    def _keep_fleet(self, model: FleetModel, tree: YamlTree) -> None:
        self._name("fleet name", [model.name], tree, ("name",))
        for number, entry in enumerate(model.hosts):
            path = ("hosts", number, "name")
            self._name(f"host name in fleet {model.name},", entry.names(), tree, path)
        self.fleets.append(model.value())

    def _name(self, what: str, names: list[str], tree: YamlTree, path: Path) -> None:
        """Each name must be new among its kind, and short enough with its number."""
        mark = tree.value_mark(path)
        if len(names[-1]) > MAX_NAME:
            message = f"{names[-1]} is longer than {MAX_NAME} characters"
            self.findings.add(mark, message, path)
        for name in names:
            first = self._named.setdefault((what, name), mark)
            if first is not mark:
                message = f"duplicate {what} {name}, first on line {first.line}"
                self.findings.add(mark, message, path)
                return


def _kind_of(tree: YamlTree, findings: SpecFindings) -> str | None:
    """The document's kind, or None after saying what is wrong with its head."""
    if not isinstance(tree.data, dict):
        findings.add(tree.start, "a document must be a mapping with apiVersion, kind and name")
        return None
    kind = tree.data.get("kind")
    version_ok = _one_of("apiVersion", [API_VERSION], tree, findings)
    kind_ok = _one_of("kind", list(_MODELS), tree, findings)
    return kind if version_ok and kind_ok else None


def _one_of(key: str, known: list[str], tree: YamlTree, findings: SpecFindings) -> bool:
    """Whether a key of the head has a known value; what is wrong goes to ``findings``."""
    words = either(known)
    value = tree.data.get(key)
    if key in tree.data:
        if value in known:
            return True
        message = f"must be {words}, not {shown(value)}{did_you_mean(value, known)}"
        findings.add(tree.value_mark((key,)), message, (key,))
    elif misspelt := nearest(key, list(tree.data)[:MAX_HEAD_KEYS]):
        message = f"unknown key; did you mean {key}?"
        findings.add(tree.key_mark((misspelt,)), message, (misspelt,))
    else:
        findings.add(tree.start, f"is missing: {words}", (key,))
    return False


_MIX = "mix"


class MixEntryModel(Strict):
    """One kind of VM, with its weight among the others; GPU parts as in ``kind: VM``."""

    gpus: list[GpuModel] = Field(default=[], max_length=MAX_GPUS)
    vcpus: int = Field(default=2, ge=1, le=512)
    memory: Memory = "4GiB"
    weight: float = Field(default=1.0, gt=0, le=1e6, strict=False)

    def value(self) -> tuple[VmSpec, float]:
        """The request in the model's words, and its weight."""
        gpus = tuple(each.value() for each in self.gpus)
        spec = VmSpec(name=_MIX, vcpus=self.vcpus, memory_mib=parse_mib(self.memory), gpus=gpus)
        return spec, self.weight


class MixModel(Strict):
    """The part of the settings that declares the expected mix of requests."""

    mix: list[MixEntryModel] = Field(min_length=1, max_length=1000)


def load_mix(
    text: str, source: str, known_profiles: frozenset[str] = frozenset()
) -> tuple[tuple[VmSpec, float], ...]:
    """The requests and weights that the settings in ``text`` declare.

    ``known_profiles`` are profile names learned from probed hosts, beside the catalogue's. Raises
    SpecError with every problem found.
    """
    findings = SpecFindings(source)
    found = trees(text, findings)
    findings.raise_if_any()
    tree = found[0]
    try:
        model = MixModel.model_validate(
            {_MIX: tree.data[_MIX]}, context={"profiles": known_profiles}
        )
    except ValidationError as error:
        report(error.errors(include_url=False), MixModel, tree, known_profiles, findings)
        findings.raise_if_any()
        raise AssertionError("a refused model has findings") from error
    return tuple(each.value() for each in model.mix)
