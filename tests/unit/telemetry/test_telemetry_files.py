"""The newest figures as files: whole, of one writer, and no older than they say."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from vgpumgr.model.gpu_figures import GpuFigures, HostFigures, VgpuFigures
from vgpumgr.model.host_sample import FleetSample, HostSample
from vgpumgr.telemetry.telemetry_files import (
    HISTORY,
    SAMPLE,
    SERIES,
    TelemetryFiles,
    longest_s,
)
from vgpumgr.telemetry.telemetry_round import RoundResult


def result(at: float) -> RoundResult:
    vgpu = VgpuFigures(number=1, uuid="u", vm="v", figures={"sm_percent": 3})
    gpu = GpuFigures(address="0000:41:00.0", figures={"power_mw": 7}, vgpus=(vgpu,), xids={"79": 1})
    told = HostFigures(host="h1", driver="580", gpus=(gpu,))
    hosts = (
        HostSample(host="h1", at=at, took_s=0.5, figures=told),
        HostSample(host="h2", at=at, hung=True, error="x"),
    )
    sample = FleetSample(at=at, interval_s=15.0, hosts=hosts)
    return RoundResult(sample=sample, text="vgpumgr_headroom 1\n", series=1)


@pytest.fixture
def files(tmp_path: Path) -> TelemetryFiles:
    found = TelemetryFiles(tmp_path / "telemetry")
    with found.owned() as ours:
        assert ours
        found.write(result(time.time()))
    return found


def test_what_was_written_is_read(files: TelemetryFiles) -> None:
    now = time.time()
    sample = files.sample(now)
    assert sample is not None
    assert sample == result(sample.at).sample
    assert files.sample(now) is sample, "read once"
    assert files.series(now, 15.0) == b"vgpumgr_headroom 1\n"


def test_old_figures_are_no_figures(files: TelemetryFiles) -> None:
    later = time.time() + longest_s(15.0) + 1
    assert files.sample(later) is None
    assert files.series(later, 15.0) is None


def test_figures_from_before_the_clock_was_put_back_are_no_figures(files: TelemetryFiles) -> None:
    earlier = time.time() - 3600.0
    assert files.sample(earlier) is None
    assert files.series(earlier, 15.0) is None
    assert files.sample(time.time() - 1.0) is not None, "a second is no step"


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"at": 1}', '{"at": "x", "interval_s": 1}', "null"]
)
def test_a_file_that_is_not_ours_is_no_figures(
    files: TelemetryFiles, tmp_path: Path, text: str
) -> None:
    (tmp_path / "telemetry" / SAMPLE).write_text(text)
    assert files.sample(time.time()) is None


def test_without_a_folder_there_is_nothing(tmp_path: Path) -> None:
    nothing = TelemetryFiles(tmp_path / "nothing")
    assert nothing.sample(1.0) is None
    assert nothing.series(1.0, 15.0) is None


def test_one_process_writes_at_a_time(tmp_path: Path) -> None:
    one, two = TelemetryFiles(tmp_path), TelemetryFiles(tmp_path)
    with one.owned() as first, two.owned() as second:
        assert (first, second) == (True, False)
    with two.owned() as again:
        assert again


def test_others_may_not_read_and_no_draft_stays(files: TelemetryFiles, tmp_path: Path) -> None:
    folder = tmp_path / "telemetry"
    assert {each.name for each in folder.iterdir()} == {SAMPLE, SERIES, "lock"}
    assert all(each.stat().st_mode & 0o077 == 0 for each in (folder, *folder.iterdir()))


def test_what_a_killed_writer_left_does_not_add_up(files: TelemetryFiles, tmp_path: Path) -> None:
    draft = tmp_path / "telemetry" / f".{SAMPLE}"
    draft.touch(0o600)
    draft.write_text("half of one, and longer than the whole" * 99)
    files.write(result(time.time()))
    test_others_may_not_read_and_no_draft_stays(files, tmp_path)
    assert TelemetryFiles(tmp_path / "telemetry").sample(time.time()) is not None


def test_a_planted_name_is_replaced_and_not_followed(files: TelemetryFiles, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("mine")
    target = tmp_path / "telemetry" / SERIES
    target.unlink()
    os.symlink(outside, target)
    files.write(result(time.time()))
    assert outside.read_text() == "mine"
    assert not target.is_symlink()


def told(at: float, share: int) -> RoundResult:
    return replace(result(at), shares={"h1/0000:41:00.0": share})


def test_the_last_hour_is_written_as_minutes_end_and_goes_on_after_a_restart(
    tmp_path: Path,
) -> None:
    minute = time.time() // 60 * 60
    first = TelemetryFiles(tmp_path)
    with first.owned():
        first.write(told(minute - 120, 10))
        assert not (tmp_path / HISTORY).exists(), "no minute is over"
        first.write(told(minute - 60, 30))
    second = TelemetryFiles(tmp_path)
    with second.owned():
        second.write(told(minute - 30, 50))
        second.write(told(minute, 99))
    history = TelemetryFiles(tmp_path).history()
    assert history.shares("h1/0000:41:00.0", minute)[-3:] == [None, 0.1, 0.5]
    assert (tmp_path / HISTORY).stat().st_mode & 0o077 == 0


def test_a_history_that_is_none_is_empty_and_written_anew(tmp_path: Path) -> None:
    (tmp_path / HISTORY).write_text("garbage")
    files, minute = TelemetryFiles(tmp_path), time.time() // 60 * 60
    assert files.history().shares("h1/0000:41:00.0", minute) == []
    files.write(told(minute - 60, 30))
    files.write(told(minute, 30))
    assert files.history().shares("h1/0000:41:00.0", minute)[-1] == 0.3


def test_all_who_ask_between_two_rounds_have_the_same_bytes(files: TelemetryFiles) -> None:
    now = time.time()
    first = files.series(now, 15.0)
    assert first is not None
    assert files.series(now, 15.0) is first
    files.write(replace(result(now), text="vgpumgr_headroom 2\n"))
    assert files.series(now, 15.0) == b"vgpumgr_headroom 2\n"
