"""The waiting-time benchmark: scenes, baselines by eye, figures, and the command."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from benchmarks.placement.checker import InvalidPlacement
from benchmarks.placement.policy import Place
from benchmarks.placement.queueing.arms import ARMS
from benchmarks.placement.queueing.baselines import Easy, Fifo
from benchmarks.placement.queueing.policies import Ours, Policy
from benchmarks.placement.queueing.replay import replay
from benchmarks.placement.queueing.scene import DAY_S, Scene, make_scene
from benchmarks.placement.traces import Host, Shape, Task
from benchmarks.placement.waiting import main

HOST = Host("h", 8000, 65536, 2, "G")
ONE, TWO = Shape(1000, 1024, 1, 1000), Shape(1000, 1024, 2, 1000)


def scene(*requests: tuple[float, float, Shape], hosts: int = 1, loose: float = 1.0) -> Scene:
    """Requests as (comes at, lasts, shape)."""
    shapes = (ONE, TWO)
    lasts = np.array([lasts for _, lasts, _ in requests])
    return Scene(
        seed=1,
        load=1.0,
        hosts=tuple(Host(f"h{n}", 8000, 65536, 2, "G") for n in range(hosts)),
        shapes=shapes,
        kinds=np.array([shapes.index(shape) for *_, shape in requests]),
        at=np.array([at for at, *_ in requests]),
        lasts=lasts,
        bounds=lasts * loose,
        standing=0,
    )


BLOCKED = scene((0, 100, ONE), (1, 50, TWO), (2, 90, ONE), (3, 200, ONE))
"""One GPU is taken until 100; the next wants both, then a short and a long one want the other."""


@pytest.mark.parametrize(
    ("policy", "starts"),
    [
        (Fifo, [0, 100, 150, 150]),
        (Easy, [0, 100, 2, 150]),
        (lambda each: Ours(each, [ONE, TWO]), [0, 100, 2, 150]),
        (lambda each: Ours(each, [ONE, TWO], bounds=False), [0, 100, 150, 150]),
    ],
)
def test_who_may_pass_the_first_in_line(policy: type[Fifo], starts: Sequence[float]) -> None:
    assert replay(policy(BLOCKED), BLOCKED).starts.tolist() == starts


def test_by_a_loose_bound_nobody_passes() -> None:
    loose = scene((0, 100, ONE), (1, 50, TWO), (2, 90, ONE), loose=1.5)
    assert replay(Easy(loose), loose).starts.tolist() == [0, 100, 2]
    tight = scene((0, 100, ONE), (1, 50, TWO), (12, 99, ONE))
    assert replay(Easy(tight), tight).starts.tolist() == [0, 100, 150]


class _Twice(Fifo):
    def turn(self, now: float) -> list[tuple[int, Place]]:
        return super().turn(now) * 2


class _Never(Fifo):
    def turn(self, now: float) -> list[tuple[int, Place]]:
        return []


@pytest.mark.parametrize("policy", [_Twice, _Never])
def test_a_policy_that_cheats_is_found_out(policy: type[Policy]) -> None:
    with pytest.raises(InvalidPlacement):
        replay(policy(BLOCKED), BLOCKED)  # type: ignore[call-arg]


def tasks() -> list[Task]:
    return [Task(ONE, 60.0 * n) for n in range(1, 30)] + [Task(TWO, 9 * DAY_S), Task(TWO, 30.0)]


def test_a_scene_offers_the_load_that_it_says() -> None:
    made = make_scene([HOST] * 40, tasks(), 7, 0.9, one_in=2, requests=20_000)
    again = make_scene([HOST] * 40, tasks(), 7, 0.9, one_in=2, requests=20_000)
    assert np.array_equal(made.at, again.at)
    assert len(made.hosts) == 20
    asked = np.array([shape.gpus for shape in made.shapes])[made.kinds]
    later = slice(made.standing, None)
    offered = (asked[later] * made.lasts[later]).sum() / made.at[-1] / 40
    assert offered == pytest.approx(0.9, rel=0.1)
    assert asked[: made.standing].sum() == pytest.approx(0.9 * 40, abs=3)
    assert made.lasts.max() <= DAY_S
    assert (made.bounds >= made.lasts).all()
    assert (made.bounds <= 10 * made.lasts).all()


def test_the_command_compares_all_policies(tmp_path: Path) -> None:
    hosts, work = tmp_path / "hosts.csv", tmp_path / "tasks.csv"
    lines = [f"h{n},8000,65536,2,G" for n in range(4)]
    hosts.write_text("\n".join(["sn,cpu_milli,memory_mib,gpu,model", *lines]) + "\n")
    header = "cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,deletion_time"
    rows = [f"1000,1024,{1 + n % 2},1000,0,{60 * (n + 1)}" for n in range(12)]
    work.write_text("\n".join([header, *rows]) + "\n")
    out = tmp_path / "out.json"
    words = ["--workload", str(work), "--hosts", str(hosts), "--loads", "1.1", "--seeds", "3"]
    assert not main([*words, "--requests", "30", "--one-in", "1", "--workers", "1",
                     "--policies", *ARMS, "--json", str(out)])  # fmt: skip
    found = json.loads(out.read_text())
    assert [each["policy"] for each in found["results"]] == list(ARMS)
    assert found["summary"]["1.1"]["vgpumgr"]["against"]["fifo"]["seeds"] == 1
    assert {each["requests"] for each in found["results"]} == {30}
