"""The commands of the pools: figures side by side, bounds, JSON and page, words refused."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from benchmarks.placement.mig import MIG
from benchmarks.placement.mig import run as mig
from benchmarks.placement.mig_static import run as static
from benchmarks.placement.pools.experiment import Job, bounds
from benchmarks.placement.pools.optimum import most_held
from benchmarks.placement.pools.summary import report, summary
from benchmarks.placement.vdi import VDI


def test_policies_are_compared_seed_by_seed() -> None:
    def result(policy: str, seed: int, units: float) -> dict[str, object]:
        return {
            "mix": "uniform", "load": 1.0, "seed": seed, "policy": policy, "units_pct": units,
            "count_pct": 90.0, "held_pct": 80.0, "moves": 0.0, "moved_share": 0.0,
        }  # fmt: skip

    rows = summary([result("a", 1, 80.0), result("a", 2, 82.0), result("b", 1, 83.0)], "a")
    assert [(row["policy"], row["units_pct"]) for row in rows] == [("a", 81.0), ("b", 83.0)]
    assert rows[1]["against_base"] == {"mean": 3.0, "better": 1, "worse": 0, "p": 1.0}
    assert rows[1]["against_free"] is None
    page = {
        "name": "mig", "gpus": 8, "lifetimes": 3.0, "base": "a", "summary": rows,
        "bound": {"uniform": {"1": 97.0}},
    }  # fmt: skip
    assert any("+3.00 (1:0" in line for line in report(page))


def test_what_is_offered_below_all_room_can_be_held() -> None:
    """The fluid bound: all where it packs, and what is short where it does not."""
    jobs = [Job("uniform", load, 1, "first-fit") for load in (0.5, 1.0, 2.0)]
    most = bounds(MIG, jobs)["uniform"]
    assert most["0.5"] == pytest.approx(100)
    assert 90 < most["1"] <= 100 + 1e-6
    assert most["2"] < 50.01
    whole = replace(VDI, gpus=1)
    assert bounds(whole, [Job("ai", 2.0, 1, "first-fit")])["ai"]["2"] == pytest.approx(50)


def test_writes_json_page_and_charts(tmp_path: Path) -> None:
    out = tmp_path / "out" / "mig.json"
    words = ["--mix", "bimodal", "--load", "0.5", "1.2", "--seeds", "42", "--gpus", "4"]
    words += ["--policy", "vgpumgr", "fgd-uniform", "--lasting", "1", "--workers", "1"]
    assert mig([*words, "--json", str(out), "--report", str(tmp_path)]) == 0
    document = json.loads(out.read_text(encoding="utf-8"))
    assert [(r["load"], r["policy"]) for r in document["results"]] == [
        (0.5, "vgpumgr"), (0.5, "fgd-uniform"), (1.2, "vgpumgr"), (1.2, "fgd-uniform")
    ]  # fmt: skip
    assert document["bound"]["bimodal"].keys() == {"0.5", "1.2"}
    assert "| bimodal | vgpumgr |" in (tmp_path / "mig.md").read_text(encoding="utf-8")
    assert (tmp_path / "mig-bimodal.svg").exists()


def test_goes_on_where_an_earlier_run_stopped(tmp_path: Path) -> None:
    out = tmp_path / "mig.json"
    words = ["--mix", "bimodal", "--load", "1.2", "--seeds", "42", "--gpus", "2", "--lasting", "1"]
    words += ["--workers", "1", "--json", str(out), "--policy", "first-fit"]
    assert mig(words) == 0
    document = json.loads(out.read_text(encoding="utf-8"))
    document["results"][0]["units_pct"] = 12.5
    out.write_text(json.dumps(document), encoding="utf-8")
    assert mig([*words, "vgpumgr", "--resume"]) == 0
    results = json.loads(out.read_text(encoding="utf-8"))["results"]
    assert [each["policy"] for each in results] == ["first-fit", "vgpumgr"]
    assert results[0]["units_pct"] == 12.5


@pytest.mark.parametrize("change", [{"gpus": 3}, {"results": [{}]}, {"results": None}])
def test_does_not_write_over_what_others_found(
    tmp_path: Path, change: dict[str, object], capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "mig.json"
    words = ["--mix", "bimodal", "--load", "1.2", "--seeds", "42", "--gpus", "2", "--lasting", "1"]
    words += ["--workers", "1", "--json", str(out), "--policy", "first-fit"]
    assert mig(words) == 0
    changed = json.dumps({**json.loads(out.read_text(encoding="utf-8")), **change})
    out.write_text(changed, encoding="utf-8")
    assert mig([*words, "--resume"]) == 2
    assert "leave --resume out" in capsys.readouterr().err
    assert out.read_text(encoding="utf-8") == changed


def test_the_optimum_leaves_out_what_is_in_the_way() -> None:
    """Into two GPUs of 7 slices each: against every choice of what to take."""
    sets, sizes = np.array([[7, 0, 0], [4, 1, 0], [1, 2, 0], [0, 0, 1]]), np.array([1, 3, 7])
    for offered in product(range(4), range(5), range(3)):
        fitting = (
            taken
            for taken in product(*(range(n + 1) for n in offered))
            if any((a + b >= taken).all() for a, b in product(sets, sets))
        )
        best = max(int(sizes @ taken) for taken in fitting)
        assert most_held(sets, 2, sizes, np.array(offered)) == best


def test_a_pool_is_filled_up_to_the_optimum_at_most(tmp_path: Path) -> None:
    out = tmp_path / "static.json"
    assert static(["--mix", "bimodal", "--seeds", "1", "--gpus", "4", "--json", str(out)]) == 0
    results = json.loads(out.read_text(encoding="utf-8"))["results"]
    assert {"vgpumgr", "first-fit", "fgd-uniform"} <= {each["policy"] for each in results}
    assert all(50 < each["alloc_pct"] <= each["optimum_pct"] <= 100 for each in results)
    assert len({each["optimum_pct"] for each in results}) == 1


@pytest.mark.parametrize("words", [["--load", "0"], ["--gpus", "x"], ["--policy", "best"]])
def test_refuses_words_it_does_not_know(words: list[str]) -> None:
    with pytest.raises(SystemExit) as error:
        mig(words)
    assert error.value.code == 2
