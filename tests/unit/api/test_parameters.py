"""No number of a request is one that the ledger, a calendar or a reader of JSON cannot have."""

from __future__ import annotations

import math

import pytest
from pydantic import ValidationError

from vgpumgr.api.parameters import all_parameters
from vgpumgr.endpoints.registry import ENDPOINTS


@pytest.mark.parametrize(
    ("endpoint", "name"),
    [
        *(("audit.list", "since"), ("operation.list", "since"), ("report.usage", "since")),
        *(("report.cost", "until"), ("host.drain", "logoff_within_s"), ("defrag.plan", "free")),
        *(("audit.list", "limit"), ("audit.verify", "size"), ("simulate.run", "memory_mib")),
    ],
)
@pytest.mark.parametrize("number", [math.nan, math.inf, 1e300, 10**30, 1 << 63])
def test_what_nothing_can_have_is_refused(endpoint: str, name: str, number: float) -> None:
    with pytest.raises(ValidationError) as refused:
        all_parameters(ENDPOINTS[endpoint]).model_validate({name: number})
    assert name in {each["loc"][0] for each in refused.value.errors()}


def test_what_it_can_have_is_taken() -> None:
    made = all_parameters(ENDPOINTS["audit.list"]).model_validate({"since": 1.5, "limit": 1 << 40})
    assert made.model_dump()["limit"] == 1 << 40
