"""What a run of faults and alerts says of itself: late, twice, missing, of another GPU."""

from __future__ import annotations

from benchmarks.alert_run import KINDS, Fault, Run, Told, drawn, judged

HOT, XID = KINDS[0], next(each for each in KINDS if each.alert == "XidReset")
FIRST = Fault(0.0, HOT, "h00", "0000:01:00.0", "0")


def told(at: float, alert: str, host: str = "h00", gpu: str = "0") -> Told:
    return Told(at, alert, host, gpu, "then")


def test_an_alert_that_comes_twice_or_late_or_of_another_gpu_is_counted() -> None:
    run = Run(injected={FIRST: 100.0})
    run.told = [told(140.0, "GpuHot"), told(150.0, "GpuHot"), told(141.0, "GpuLost", gpu="3")]
    found = judged(run)
    assert found["later_than_30_s"] == 1
    assert found["twice"] == ["GpuHot h00 0"]
    assert found["unexpected"] == ["GpuLost h00 3"]


def test_a_fault_without_its_alert_is_named() -> None:
    run = Run(injected={FIRST: 100.0}, told=[told(101.0, "GpuThrottledHw")])
    assert judged(run)["missing"] == ["h00 0000:01:00.0 hot"]


def test_what_a_fault_brings_besides_is_expected() -> None:
    run = Run(injected={FIRST._replace(kind=XID): 100.0})
    run.told = [told(104.0, "XidReset"), told(105.0, "RecoveryActionSet"), told(9.0, "GpuBusy")]
    found = judged(run)
    assert (found["alerts"], found["unexpected"], found["twice"]) == (1, [], [])
    assert found["followed_from_the_same_faults"] == 1
    assert found["of_rules_with_for"] == {"GpuBusy": 1}


def test_every_kind_is_drawn_and_no_gpu_twice() -> None:
    gpus = [(f"h{number}", f"0000:{number:02x}:00.0", "0") for number in range(40)]
    faults = drawn(gpus, 30, 60.0, 1, past=True)
    assert {each.kind for each in faults} == {*KINDS}
    assert len({each.host for each in faults}) == 30
    assert [each.at for each in faults] == sorted(each.at for each in faults)
    young = drawn(gpus, 30, 60.0, 1, past=False)
    assert not any(each.kind.past for each in young)
