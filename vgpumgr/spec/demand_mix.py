"""``mix:`` of the settings: the expected mix of requests."""

from __future__ import annotations

from pydantic import Field, ValidationError

from vgpumgr.model.formats import parse_mib
from vgpumgr.model.vm import VmSpec
from vgpumgr.spec.fields import Memory, Strict
from vgpumgr.spec.spec_file import SpecFindings, trees
from vgpumgr.spec.validation_messages import report
from vgpumgr.spec.vm_document import MAX_GPUS, GpuModel

KEY = "mix"


class MixEntryModel(Strict):
    """One kind of VM, with its weight among the others; GPU parts as in ``kind: VM``."""

    gpus: list[GpuModel] = Field(default=[], max_length=MAX_GPUS)
    vcpus: int = Field(default=2, ge=1, le=512)
    memory: Memory = "4GiB"
    weight: float = Field(default=1.0, gt=0, le=1e6, strict=False)

    def value(self) -> tuple[VmSpec, float]:
        """The request in the model's words, and its weight."""
        gpus = tuple(each.value() for each in self.gpus)
        spec = VmSpec(name=KEY, vcpus=self.vcpus, memory_mib=parse_mib(self.memory), gpus=gpus)
        return spec, self.weight


class MixModel(Strict):
    """The settings' part that is read here."""

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
        model = MixModel.model_validate({KEY: tree.data[KEY]}, context={"profiles": known_profiles})
    except ValidationError as error:
        report(error.errors(include_url=False), MixModel, tree, known_profiles, findings)
        findings.raise_if_any()
        raise AssertionError("a refused model has findings") from error
    return tuple(each.value() for each in model.mix)
