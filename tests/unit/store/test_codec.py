"""The store's codec: the text of model.codec, and every value comes back."""

from __future__ import annotations

import json
from dataclasses import fields

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vgpumgr.model.codec import dump, load, printable, to_plain
from vgpumgr.model.host import ClaimFacts, HostFacts
from vgpumgr.model.vm import VmSpec

TEXT = st.text(st.characters(), max_size=8)  # lone surrogates and NUL included
# Not a number is no value of anything here, and equals not even itself.
st.register_type_strategy(float, st.floats(allow_nan=False))


def every_field(kind: type, *but: str) -> st.SearchStrategy:
    """Values of a type with no field left at its default."""
    return st.builds(kind, **{f.name: ... for f in fields(kind) if f.name not in but})


@given(every_field(VmSpec))
def test_a_vm_spec_comes_back(spec: VmSpec) -> None:
    assert load(VmSpec, dump(spec)) == spec
    assert json.loads(dump(spec)) == json.loads(json.dumps(to_plain(spec)))


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=30, deadline=None)
@given(every_field(HostFacts, "claims"))
def test_host_facts_come_back(facts: HostFacts) -> None:
    assert load(HostFacts, dump(facts)) == facts


@given(TEXT)
def test_any_text_comes_back(text: str) -> None:
    claim = ClaimFacts(
        unit=text, fleet="f", epoch=1, allocation="a", generation=1, vm="v", wanted={text: [text]}
    )
    assert load(ClaimFacts, dump(claim)) == claim
    assert dump(claim).isascii()


def test_missing_fields_take_defaults_and_unknown_ones_are_ignored() -> None:
    spec = load(VmSpec, '{"name": "a", "vcpus": 1, "memory_mib": 2, "of_the_future": [1]}')
    assert spec == VmSpec(name="a", vcpus=1, memory_mib=2)


@given(TEXT)
def test_printable_text_fits_any_database(text: str) -> None:
    printable(text).encode()
    assert "\0" not in printable(text)
