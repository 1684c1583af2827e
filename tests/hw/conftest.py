"""This machine's own GPUs, read and never changed: the helper runs here, for two verbs only."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from vgpumgr.hosts.facts.host_facts import assemble
from vgpumgr.model.gpu import GpuFacts
from vgpumgr.model.host import HostFacts


def asked(verb: str) -> dict[str, object]:
    """The answer of one verb that reads."""
    assert verb in {"probe", "examine"}
    request = json.dumps({"verb": verb, "args": {}})
    done = subprocess.run(
        [sys.executable, "-m", "vgpumgr.helper"],
        input=request, capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    answer = json.loads(done.stdout)
    assert answer["ok"], answer
    return dict(answer["result"])


@pytest.fixture(scope="session")
def facts() -> HostFacts:
    """What a probe of this machine shows."""
    return assemble("here", asked("probe"))


@pytest.fixture(scope="session")
def nvidia(facts: HostFacts) -> list[GpuFacts]:
    """Its NVIDIA GPUs under their driver."""
    found = [each for each in facts.gpus if each.driver == "nvidia"]
    if not found:
        pytest.skip("no GPU on the nvidia driver here")
    return found
