"""What was set out to be reached, judged from the JSON of a folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.placement.targets import Target, main, targets


def row(policy: str, at_130: float, cpu: float, **more: Any) -> dict[str, Any]:
    return {
        "policy": policy, "workload": "cpu250", "variant": "plain", "history": None,
        "alloc_pct": {level: {"mean": at_130} for level in ("100", "130")},
        "refusals": {"cpu": cpu}, **more,
    }  # fmt: skip


def write(folder: Path, name: str, *rows: dict[str, Any]) -> None:
    (folder / f"{name}.json").write_text(json.dumps({"summary": rows}), encoding="utf-8")


def by_name(folder: Path) -> dict[str, Target]:
    return {each.what: each for each in targets(folder)}


def test_differences_to_fgd_and_to_its_published_figures(tmp_path: Path) -> None:
    write(tmp_path, "inflation", row("vgpumgr", 94.9, 700), row("fgd", 93.4, 720))
    found = by_name(tmp_path)
    assert found["ahead of FGD @130, mean of 1 workloads"].got == pytest.approx(1.5)
    assert found["against published FGD @130, worst: cpu250"].got == pytest.approx(1.49, abs=0.01)
    assert found["cpu250, CPU-only refused (FGD's)"].wanted == 720
    assert all(each.reached for each in found.values())


def test_more_refusals_than_fgd_are_a_target_missed(tmp_path: Path) -> None:
    write(tmp_path, "inflation", row("vgpumgr", 94.9, 800), row("fgd", 93.4, 720))
    assert not by_name(tmp_path)["cpu250, CPU-only refused (FGD's)"].reached


def test_moves_are_part_of_what_free_migration_is_held_to(tmp_path: Path) -> None:
    away = {"mean": -0.5, "better": 0, "worse": 5, "p": 0.06}
    name = "least-fragmentation + 8 moves"
    vdi = {"policy": name, "mix": "ai", "load": 0.95, "against_free": away, "moved_share": 0.04}
    write(tmp_path, "vdi", vdi)
    assert [each.reached for each in targets(tmp_path)] == [True, False]


def test_shows_what_was_run_and_says_where_nothing_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, "history", row("vgpumgr", 95.9, 1) | {"workload": "default", "history": 0.0})
    assert main([str(tmp_path)]) == 0
    assert "| history 0, default @130 | ≥ 95.35 | 95.90 | yes |" in capsys.readouterr().out
    assert main([str(tmp_path / "nowhere")]) == 2
