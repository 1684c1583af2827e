"""The command reads any files of the right columns and writes the JSON and the report."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks.placement import __main__
from benchmarks.placement.__main__ import PREFIX, main
from benchmarks.placement.options import parser
from benchmarks.placement.paired import sign_test
from benchmarks.placement.run import Job, run
from benchmarks.placement.suite import experiments
from benchmarks.placement.summary import DATA, published, summary
from benchmarks.placement.variant import Variant

HOSTS = "sn,cpu_milli,memory_mib,gpu,model\n" + "".join(
    f"h{n},16000,65536,{2 + 2 * (n % 2)},T4\n" for n in range(6)
)
TASKS = "cpu_milli,memory_mib,num_gpu,gpu_milli\n" + "".join(
    f"{1000 * (1 + n % 3)},1024,1,{(250, 600, 1000)[n % 3]}\n" for n in range(24)
)


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    hosts, tasks = tmp_path / "hosts.csv", tmp_path / "tasks.csv"
    hosts.write_text(HOSTS, encoding="utf-8")
    tasks.write_text(TASKS, encoding="utf-8")
    return hosts, tasks


def test_writes_json_and_report(tmp_path: Path, files: tuple[Path, Path]) -> None:
    hosts, tasks = files
    out, report = tmp_path / "out" / "x.json", tmp_path / "report"
    words = ["--workload", str(tasks), "--hosts", str(hosts), "--seeds", "42-43", "--workers", "1"]
    words += ["--policies", "bestfit,fgd", "--json", str(out), "--report", str(report)]
    assert main(words) == 0
    document = json.loads(out.read_text(encoding="utf-8"))
    assert [(r["policy"], r["seed"]) for r in document["results"]] == [
        ("bestfit", 42), ("bestfit", 43), ("fgd", 42), ("fgd", 43)
    ]  # fmt: skip
    for result in document["results"]:
        assert {"95", "100", "130"} <= result["alloc_pct"].keys()
        assert {"cpu", "share", "1", "2", "4", "8"} <= result["refusals"].keys()
        assert {"median", "p99"} == result["decision_us"].keys()
        limit = document["bound"]["tasks"][str(result["seed"])]["free"]["130"]
        assert result["alloc_pct"]["130"] <= limit + 1e-6
    page = (report / "x.md").read_text(encoding="utf-8")
    assert "| fgd |" in page
    assert (report / "x-tasks.svg").read_text(encoding="utf-8").startswith("<svg")


def test_a_job_that_fails_loses_nothing_of_the_others(
    tmp_path: Path, files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts, tasks = files
    whole = __main__.run_all

    def failing(jobs: Sequence[Job], workers: int) -> Iterator[tuple[Job, dict[str, Any]]]:
        yield from whole(jobs[:1], workers)
        raise RuntimeError("the second one")

    monkeypatch.setattr(__main__, "run_all", failing)
    out = tmp_path / "x.json"
    words = ["--workload", str(tasks), "--hosts", str(hosts), "--seeds", "42", "--workers", "1"]
    with pytest.raises(RuntimeError, match="the second one"):
        main([*words, "--policies", "bestfit,fgd", "--json", str(out)])
    [kept] = json.loads(out.read_text(encoding="utf-8"))["results"]
    assert kept["policy"] == "bestfit"


def test_goes_on_with_what_an_earlier_run_has_found(
    tmp_path: Path, files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    hosts, tasks = files
    out = tmp_path / "x.json"
    words = ["--workload", str(tasks), "--hosts", str(hosts), "--workers", "1", "--json", str(out)]
    assert main([*words, "--seeds", "42", "--policies", "bestfit,fgd"]) == 0
    first = json.loads(out.read_text(encoding="utf-8"))
    capsys.readouterr()
    more = [*words, "--seeds", "42-43", "--policies", "bestfit,fgd", "--resume"]
    assert main(more) == 0
    assert capsys.readouterr().err.count("tasks plain 42") == 0  # nothing is run again
    second = json.loads(out.read_text(encoding="utf-8"))
    found = [(r["policy"], r["seed"]) for r in second["results"]]
    assert found == [("bestfit", 42), ("bestfit", 43), ("fgd", 42), ("fgd", 43)]
    assert second["results"][0] == first["results"][0]  # its times too
    assert second["bound"]["tasks"].keys() == {"42", "43"}
    assert main(more) == 0 and json.loads(out.read_text(encoding="utf-8")) == second
    assert main([*words, "--seeds", "42", "--policies", "fgd", "--resume"]) == 2
    assert "4 results in the file" in capsys.readouterr().err  # bestfit twice, and seed 43
    assert json.loads(out.read_text(encoding="utf-8")) == second
    out.write_text("[]", encoding="utf-8")
    assert main(more) == 2
    assert "leave --resume out" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--policies", "best"], "no policy best"),
        (["--seeds", "a"], "not like 42-46"),
        (["--seeds", "46-42"], "42 is before 46"),
        (["--workers", "0"], "not a whole number above 0"),
        (["--history", "much"], "not between 0 and 1"),
        (["--variant", "departures:x"], "departures[:LOAD]"),
        (["--history", "2"], "not between 0 and 1"),
        (["--variant", "sorted"], "windows:SIZE"),
    ],
)
def test_refuses_words_it_does_not_know(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as error:
        main(["--workload", "default", "--json", "x.json", *words])
    assert error.value.code == 2
    assert said in capsys.readouterr().err


def test_says_that_a_workload_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--workload", "nothing", "--json", "x.json"]) == 2
    assert "no workload nothing" in capsys.readouterr().err


def test_one_result_is_the_same_twice(files: tuple[Path, Path]) -> None:
    hosts, tasks = files
    job = Job("tasks", tasks, hosts, 42, "fgd", 0.2, Variant.parse("windows:4"))
    times = ("decision_us", "cpu_s")
    first, second = ({k: v for k, v in run(job).items() if k not in times} for _ in range(2))
    assert first == second


def test_several_variants_and_histories_in_one_run(
    tmp_path: Path, files: tuple[Path, Path]
) -> None:
    """Ours runs with each history, FGD once, and both are compared in each setting."""
    hosts, tasks = files
    out = tmp_path / "x.json"
    words = ["--workload", str(tasks), "--hosts", str(hosts), "--workers", "1", "--no-bound"]
    words += ["--variant", "windows:4", "windows:8", "--history", "1", "0"]
    words += ["--policies", "vgpumgr-bulk,fgd", "--json", str(out), "--report", str(tmp_path)]
    assert main(words) == 0
    rows = json.loads(out.read_text(encoding="utf-8"))["summary"]
    assert [(row["variant"], row["policy"], row["history"]) for row in rows] == [
        ("windows:4", "vgpumgr-bulk", 1.0), ("windows:4", "vgpumgr-bulk", 0.0),
        ("windows:4", "fgd", None),
        ("windows:8", "vgpumgr-bulk", 1.0), ("windows:8", "vgpumgr-bulk", 0.0),
        ("windows:8", "fgd", None),
    ]  # fmt: skip
    assert all(row["against_fgd"]["130"]["p"] == 1.0 for row in rows)
    assert (tmp_path / "x-tasks-windows.svg").exists()


@pytest.mark.parametrize("full", [False, True])
def test_every_experiment_is_one_the_command_understands(full: bool) -> None:
    for words in experiments(full=full).values():
        args = parser(None).parse_args([*words, "--json", "x"])
        assert all((DATA / f"{PREFIX}{name}.csv.gz").exists() for name in args.workload)


def test_paired_differences_and_published_figures() -> None:
    def result(policy: str, seed: int, alloc: float) -> dict[str, Any]:
        return {
            "policy": policy, "seed": seed, "workload": "w", "alloc_pct": {"100": alloc},
            "variant": "plain", "history": None if policy == "fgd" else 0.2, "accepted_pct": alloc,
            "fragmented_pct": {}, "first_refusal_pct": None if seed == 42 else 90.0,
            "refusals": {"cpu": seed}, "refusals_before_95": 1,
            "decision_us": {"median": 1.0, "p99": 2.0},
        }  # fmt: skip

    results = [result("fgd", s, 90.0) for s in (42, 43)]
    results += [result("ours", 42, 91.0), result("ours", 43, 93.0)]
    (found,) = [row for row in summary(results) if row["policy"] == "ours"]
    assert found["alloc_pct"]["100"] == {"mean": 92.0, "stdev": pytest.approx(1.4142), "min": 91.0}
    assert found["against_fgd"]["100"] == {"mean": 2.0, "better": 2, "worse": 0, "p": 0.5}
    assert found["first_refusal_pct"] is None
    assert found["refusals"] == {"cpu": 42.5}
    assert sign_test([1.0] * 10) == pytest.approx(2 / 1024)
    assert sign_test([]) == 1.0
    assert published("default", "fgd")["130"] == pytest.approx(95.39, abs=0.01)
    assert published("default", "nova") == {}
