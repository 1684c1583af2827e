"""The text that we write is what Prometheus' own client reads, whatever names hold."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from vgpumgr.helper.series_text import head_text, label_text, value_text
from vgpumgr.telemetry.contract import FAMILIES
from vgpumgr.telemetry.exposition import Exposition

NAMES = st.text(st.characters(exclude_categories=("Cs",)), max_size=30)


@given(host=NAMES, vm=NAMES, value=st.floats() | st.integers(0, 2**64))
def test_any_label_and_value_comes_back(host: str, vm: str, value: float) -> None:
    if any(each in host + vm for each in "\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"):
        return  # the client's parser splits lines where Prometheus does not
    out = Exposition()
    out.add("vgpumgr_headroom", label_text({"host": host, "vm": vm}), value)
    [family] = text_string_to_metric_families(out.text())
    [sample] = family.samples
    assert sample.labels == {"host": host, "vm": vm}
    assert float(sample.value) == float(value) or (math.isnan(value) and math.isnan(sample.value))


def test_a_name_cannot_make_a_series_of_its_own() -> None:
    out = Exposition()
    out.add("vgpumgr_headroom", label_text({"profile": 'x"} 1\nup{job="fake'}), 2)
    [family] = text_string_to_metric_families(out.text())
    assert [each.name for each in family.samples] == ["vgpumgr_headroom"]
    assert out.text().count("\n") == 3


def test_families_come_whole_and_in_the_order_of_the_contract() -> None:
    out = Exposition()
    for family in reversed(FAMILIES):
        if family.kind != "histogram":
            out.add(family.name, "", 1)
    found = [line.split()[2] for line in out.text().splitlines() if line.startswith("# TYPE")]
    assert found == [family.name for family in FAMILIES if family.kind != "histogram"]


def test_a_histogram_is_read_with_its_buckets() -> None:
    out = Exposition()
    name = "vgpumgr_operation_duration_seconds"
    out.add_histogram(name, label_text({"kind": "apply"}), (0.5, 1.0), (3, 0, 2), 7.25)
    [family] = text_string_to_metric_families(out.text())
    assert family.type == "histogram"
    buckets = {e.labels["le"]: e.value for e in family.samples if e.name.endswith("_bucket")}
    assert buckets == {"0.5": 3, "1": 3, "+Inf": 5}
    rest = {e.name: e.value for e in family.samples if not e.name.endswith("_bucket")}
    assert rest == {f"{name}_sum": 7.25, f"{name}_count": 5}


def test_a_family_outside_of_the_contract_is_an_error_of_ours() -> None:
    with pytest.raises(AssertionError, match="no row"):
        Exposition().add("vgpumgr_made_up", "", 1)


def test_values_are_written_short() -> None:
    assert [value_text(each) for each in (1.0, 0.29, 10**18, 0.1 + 0.2, math.inf)] == [
        "1", "0.29", "1000000000000000000", "0.30000000000000004", "+Inf",
    ]  # fmt: skip
    assert head_text("a", "", 'b="c"') == 'a{b="c"} '
    assert head_text("a") == "a "
