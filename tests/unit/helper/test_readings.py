"""What a probe reads of a GPU that may speak against it, and the Xids of the kernel's log."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pynvml
import pytest

from tests.unit.helper.host import GPU, FakeHost, done, gpu_host
from tests.unit.helper.nvidia import NvidiaHost
from vgpumgr.helper import system
from vgpumgr.helper.facts import kernel_log


def readings(host: NvidiaHost) -> dict[str, Any]:
    [entry] = done(host, "probe")["nvml"]["gpus"]
    return dict(entry["readings"])


def test_counts_of_memory_come_from_field_values_each_with_its_own_answer() -> None:
    host = NvidiaHost()
    host.gpu.fields = {
        pynvml.NVML_FI_DEV_ECC_DBE_VOL_TOTAL: 3,
        pynvml.NVML_FI_DEV_RETIRED_DBE: 61,
        pynvml.NVML_FI_DEV_RETIRED_SBE: 2,
    }
    host.gpu.retired = 1
    found = readings(host)
    assert found["uncorrected_errors"] == 3
    assert found["pages"] == {"corrected": 2, "uncorrected": 61, "pending": True}


def test_a_library_that_knows_no_field_tells_none() -> None:
    host = NvidiaHost()
    host.fake.fails["nvmlDeviceGetFieldValues"] = "INVALID_ARGUMENT"
    found = readings(host)
    assert (found["recovery_action"], found["uncorrected_errors"]) == (None, None)
    assert found["rows"] is not None


@pytest.mark.parametrize(
    ("reasons", "words"),
    [
        (0x1, []),
        (0x4, []),
        (0x40, ["hw-thermal"]),
        (0xE0, ["hw-thermal", "power-brake", "sw-thermal"]),
    ],
)
def test_what_slows_the_clocks_down(reasons: int, words: list[str]) -> None:
    host = NvidiaHost()
    host.gpu.reasons = reasons
    assert readings(host)["slowed"] == words


def test_a_link_below_its_generation_counts_on_a_busy_gpu_alone() -> None:
    """An idle GPU saves power on its link."""
    host = NvidiaHost()
    assert readings(host)["link_generation"] is None
    host.gpu.reasons = 0
    assert readings(host)["link_generation"] == {"now": 1, "most": 4}
    host.gpu.generations = (4, 4)
    assert readings(host)["link_generation"] is None


def test_nvidias_threshold_of_sram_errors() -> None:
    host = NvidiaHost()
    host.gpu.sram_exceeded = True
    assert readings(host)["sram_exceeded"] is True
    host.fake.missing = {"nvmlDeviceGetSramEccErrorStatus"}
    assert readings(host)["sram_exceeded"] is None


def link_of(host: FakeHost) -> object:
    return done(host, "probe")["devices"][0]["link"]


def test_the_width_of_a_link_is_that_of_board_and_slot() -> None:
    host = gpu_host()
    at = f"/sys/devices/pci0000:40/{GPU}"
    assert link_of(host) is None
    host.files |= {f"{at}/current_link_width": "8\n", f"{at}/max_link_width": "16\n"}
    assert link_of(host) == {"width": 8, "most": 16}
    host.files["/sys/devices/pci0000:40/max_link_width"] = "8\n"
    assert link_of(host) == {"width": 8, "most": 8}
    host.files[f"{at}/current_link_width"] = "63\n"
    assert link_of(host) is None


XID = "NVRM: Xid (PCI:0000:41:00): 79, pid=1234, name=foo, GPU has fallen off the bus."


def test_an_xid_of_the_kernels_log() -> None:
    host = gpu_host()
    host.records = [
        "6,1,10,-;pci 0000:41:00.0: enabling device\n",
        f"4,2,20,-;{XID}\n SUBSYSTEM=pci\n",
        "4,3,30,-;NVRM: Xid (PCI:0000:C1:00 GPU-I:05): 94, Contained: SM (0x1). RST: No\n",
    ]
    assert done(host, "probe")["xids"] == [
        {
            "seq": 2,
            "at_us": 20,
            "address": "0000:41:00.0",
            "instance": None,
            "xid": 79,
            "text": "pid=1234, name=foo, GPU has fallen off the bus.",
        },
        {
            "seq": 3,
            "at_us": 30,
            "address": "0000:c1:00.0",
            "instance": 5,
            "xid": 94,
            "text": "Contained: SM (0x1). RST: No",
        },
    ]


def test_what_a_process_writes_to_the_log_is_no_word_of_the_driver() -> None:
    """User space has facility 1 and more: 12 is its warning."""
    host = gpu_host()
    host.records = [f"12,1,10,-;{XID}\n", f"nonsense {XID}", f"4,2,x,-;{XID}", "4,3,1,-;NVRM: Xid"]
    assert done(host, "probe")["xids"] == []


def test_a_storm_is_told_by_its_newest_lines() -> None:
    host = gpu_host()
    host.records = [f"4,{n},{n},-;{XID}\n" for n in range(1000)]
    host.records += ["4,1000,1000,-;NVRM: Xid (PCI:0000:41:00): 31, x\n"]
    told = done(host, "probe")["xids"]
    assert [each["seq"] for each in told] == [*range(984, 1001)]
    host.records = [f"4,{n},{n},-;NVRM: Xid (PCI:0000:41:00): {n % 100}, x\n" for n in range(5000)]
    told = done(host, "probe")["xids"]
    assert len(told) == kernel_log.MOST
    assert told[-1]["seq"] == 4999


@pytest.mark.parametrize("number", [errno.EPERM, errno.EACCES, errno.ENOENT])
def test_without_the_right_to_read_it_nothing_is_said_of_the_log(number: int) -> None:
    host = gpu_host()
    host.records = OSError(number, os.strerror(number))
    seen = done(host, "probe")
    assert seen["xids"] is None
    assert "xids" not in {each["part"] for each in seen["unknown"]}


def test_a_log_that_cannot_be_read_is_named() -> None:
    host = gpu_host()
    host.records = OSError(errno.EIO, "broken")
    assert "xids" in {each["part"] for each in done(host, "probe")["unknown"]}


def test_records_are_read_until_there_is_none(tmp_path: Path) -> None:
    """A pipe with its other end open answers EAGAIN as the kernel's log does."""
    pipe = tmp_path / "kmsg"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    writer = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
    os.write(writer, b"4,1,1,-;a\n")
    try:
        assert system.kernel_records(str(pipe)) == ["4,1,1,-;a\n"]
    finally:
        os.close(writer)
        os.close(reader)


def test_an_overwritten_record_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[bytes | OSError] = [BrokenPipeError(), b"4,9,9,-;b\n", BlockingIOError()]

    def read(_handle: int, _most: int) -> bytes:
        answer = answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer

    monkeypatch.setattr("vgpumgr.helper.system.os.read", read)
    assert system.kernel_records("/dev/null") == ["4,9,9,-;b\n"]
