"""Why a VM may be slow: each finding by its evidence, and unknown where nothing tells."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from vgpumgr.telemetry.performance import (
    DeviceLimit,
    Neighbour,
    PartFacts,
    PerformanceFacts,
    Verdict,
    findings,
    summary,
)

GIB = 1 << 30
PART = PartFacts(
    profile="A40-8Q",
    gpu="A40 0000:41:00.0",
    licensed=True,
    frame_limit=60,
    frames=12,
    share=0.3,
    gpu_share=0.5,
    scheduler="best-effort",
    most=6,
    throttled=(),
    memory_used=2 * GIB,
    memory_total=8 * GIB,
    numa_node=1,
)
DESK = PerformanceFacts(
    vm="desk",
    host="h1",
    running=True,
    parts=(PART,),
    vcpus=8,
    host_cpus=64,
    host_vcpus=40,
    numa_node=1,
    numa_nodes=2,
    measured_s=3.0,
)
CAUSE, POSSIBLE, UNKNOWN, OUT = Verdict.CAUSE, Verdict.POSSIBLE, Verdict.UNKNOWN, Verdict.RULED_OUT


def of(code: str, facts: PerformanceFacts) -> tuple[Verdict, str]:
    [found] = [each for each in findings(facts) if each.code == code]
    assert found.next or found.verdict in {OUT, UNKNOWN}, "say what to type"
    return found.verdict, found.text


def with_part(**changes: object) -> PerformanceFacts:
    return replace(DESK, parts=(replace(PART, **changes),))  # type: ignore[arg-type]


def test_a_vm_with_nothing_the_matter_has_no_cause() -> None:
    found = findings(DESK)
    assert {each.verdict for each in found} == {OUT}
    assert {each.code for each in found} == {
        *("licence", "frame-rate-limiter", "gpu-busy", "scheduler", "frame-buffer"),
        *("throttling", "numa", "cpu-overcommit", "ballooning", "disk-limit", "network-limit"),
    }
    assert summary(found) == "no cause"


@pytest.mark.parametrize(
    ("code", "changes", "verdict", "text"),
    [
        ("licence", {"licensed": False}, CAUSE, "no licence (vws)"),
        ("licence", {"licensed": None}, UNKNOWN, "licence (vws) is not told"),
        ("frame-rate-limiter", {"frames": 57}, CAUSE, "limited to 60 a second, and it makes 57"),
        ("frame-rate-limiter", {"frames": None}, POSSIBLE, "how many it makes is not told"),
        ("frame-rate-limiter", {"frame_limit": None}, UNKNOWN, "limit is not told"),
        ("frame-rate-limiter", {"limiter": False, "frames": 57}, OUT, "limiter is off"),
        ("frame-rate-limiter", {"frame_limit": 0}, OUT, "limiter is off"),
        ("frame-rate-limiter", {"scheduler": "equal-share", "frames": 57}, OUT, "equal-share"),
        (
            "gpu-busy",
            {"gpu_share": 0.97, "neighbours": (Neighbour(vm="b", share=0.5),)},
            CAUSE,
            "97% busy: desk 30%, b 50%",
        ),
        (
            "gpu-busy",
            {"gpu_share": 0.97, "neighbours": (Neighbour(vm="", share=0.5),)},
            CAUSE,
            "another tenant 50%",
        ),
        ("gpu-busy", {"gpu_share": 0.96, "share": 0.95}, CAUSE, "96% busy: desk 95%"),
        ("gpu-busy", {"gpu_share": 0.8}, POSSIBLE, "80% busy"),
        ("gpu-busy", {"gpu_share": None}, UNKNOWN, "not told"),
        (
            "scheduler",
            {"scheduler": "fixed-share", "share": 0.16},
            CAUSE,
            "1/6 of A40 0000:41:00.0, busy or not, in time slices of 2 ms",
        ),
        ("scheduler", {"scheduler": "fixed-share", "share": 0.05}, OUT, "uses 5% of the GPU"),
        (
            "scheduler",
            {
                **{"scheduler": "equal-share", "share": 0.49, "most": 32},
                "neighbours": (Neighbour(vm="b", share=0.4),),
            },
            CAUSE,
            "1/2 of A40 0000:41:00.0, in time slices of 1 ms",
        ),
        ("scheduler", {"scheduler": "equal-share", "share": 0.99}, OUT, "1/1"),
        (
            "scheduler",
            {"scheduler": "fixed-share", "share": 0.16, "timing": (4000,)},
            CAUSE,
            "busy or not, in time slices of 4 ms, and it uses",
        ),
        (
            "scheduler",
            {"scheduler": "fixed-share", "share": 0.16, "timing": (480, 51)},
            CAUSE,
            "at 480 Hz, averaging 51",
        ),
        (
            "scheduler",
            {"scheduler": "fixed-share", "share": 0.16, "timing": ()},
            CAUSE,
            "2 ms, the driver's own",
        ),
        ("scheduler", {"scheduler": "fixed-share", "share": None}, POSSIBLE, "not told"),
        ("scheduler", {"scheduler": None}, UNKNOWN, "policy is not told"),
        ("frame-buffer", {"memory_used": 8 * GIB - 1}, CAUSE, "of 8 GiB frame buffer"),
        ("frame-buffer", {"memory_used": None}, UNKNOWN, "not told"),
        ("throttling", {"throttled": ("hw_thermal", "power")}, CAUSE, "so hot"),
        ("throttling", {"throttled": None}, UNKNOWN, "not told"),
        ("numa", {"numa_node": 0}, CAUSE, "on NUMA node 1, A40 0000:41:00.0 on node 0"),
        ("numa", {"numa_node": None}, UNKNOWN, "not told"),
        ("health", {"health": "degraded"}, POSSIBLE, "is degraded"),
    ],
)
def test_a_part(code: str, changes: dict[str, object], verdict: Verdict, text: str) -> None:
    found, said = of(code, with_part(**changes))
    assert found == verdict, said
    assert text in said


@pytest.mark.parametrize(
    ("code", "changes", "verdict", "text"),
    [
        ("off", {"running": False}, CAUSE, "desk does not run"),
        ("figures", {"measured_s": None}, UNKNOWN, "h1 has told no figures lately"),
        (
            "figures",
            {"measured_s": None, "silent": "no route"},
            UNKNOWN,
            "h1 has told no figures: no route",
        ),
        ("numa", {"numa_node": None}, POSSIBLE, "bound to no NUMA node"),
        ("cpu-overcommit", {"host_vcpus": 96}, POSSIBLE, "96 vCPUs of running VMs on 64 CPUs"),
        ("cpu-overcommit", {"host_vcpus": 96, "pinned": True}, OUT, "pinned"),
        ("cpu-overcommit", {"host_cpus": None}, UNKNOWN, "not told"),
        ("cpu-steal", {"host_vcpus": 96}, UNKNOWN, "steal"),
        ("cpu-shares", {"host_vcpus": 96, "cpu_shares": 512}, POSSIBLE, "512"),
        ("ballooning", {"parts": ()}, UNKNOWN, "not told"),
        (
            "disk-limit",
            {"disk_limits": (DeviceLimit(device="disk 1", text="500 operations a second"),)},
            POSSIBLE,
            "disk 1 is limited to 500 operations a second",
        ),
        (
            "network-limit",
            {"nic_limits": (DeviceLimit(device="NIC 1", text="1 MiB a second in"),)},
            POSSIBLE,
            "NIC 1 is limited to 1 MiB a second in",
        ),
    ],
)
def test_the_rest(code: str, changes: dict[str, object], verdict: Verdict, text: str) -> None:
    found, said = of(code, replace(DESK, **changes))  # type: ignore[arg-type]
    assert found == verdict, said
    assert text in said


def test_a_whole_gpu_tells_nothing_of_its_use() -> None:
    found = findings(with_part(whole=True, profile="passthrough", licensed=None))
    assert of("whole-gpu", with_part(whole=True, profile="passthrough"))[0] is UNKNOWN
    assert not {each.code for each in found} & {"licence", "gpu-busy", "scheduler"}


def test_one_numa_node_is_not_spoken_of() -> None:
    assert not [each for each in findings(replace(DESK, numa_nodes=1)) if each.code == "numa"]


def test_every_cause_of_the_page_has_a_test() -> None:
    """Codes that docs/performance.md lists are those that findings have here, no more, no less."""
    page = (Path(__file__).parents[3] / "docs" / "performance.md").read_text()
    rows = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    listed = {code for row in rows for code in re.findall(r"`([a-z-]+)`", row)}
    whole = with_part(whole=True, profile="passthrough", health="degraded")
    crowded = replace(DESK, host_vcpus=96, cpu_shares=512, measured_s=None)
    found = {
        each.code
        for facts in (DESK, whole, crowded, replace(DESK, running=False))
        for each in findings(facts)
    }
    assert found - {"figures"} == listed


def test_the_causes_come_first() -> None:
    found = findings(replace(with_part(licensed=False, gpu_share=None), host_vcpus=96))
    verdicts = [each.verdict for each in found]
    assert verdicts == sorted(verdicts, key=list(Verdict).index)
    assert summary(found) == "1 cause, 1 possible, 2 unknown"
