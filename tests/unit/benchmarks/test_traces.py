"""Files with the columns of the openb trace are read; what cannot be used says why."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from benchmarks.placement.summary import DATA
from benchmarks.placement.traces import Host, Shape, TraceError, read_hosts, read_tasks

HOSTS = "sn,cpu_milli,memory_mib,gpu,model\n"
TASKS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time\n"


def written(folder: Path, text: str) -> Path:
    path = folder / "trace.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_reads_hosts_and_tasks(tmp_path: Path) -> None:
    hosts = read_hosts(written(tmp_path, HOSTS + "a,64000,262144,2,P100\nb,8000,1024,0,\n"))
    assert hosts == (Host("a", 64000, 262144, 2, "P100"), Host("b", 8000, 1024, 0, ""))
    text = TASKS + "p,6000,12288,1,460,T4|A10|T4,100,350\nq,1000,2048,0,0,T4,,\n"
    share, cpu = read_tasks(written(tmp_path, text))
    assert share.shape == Shape(6000, 12288, 1, 460, ("A10", "T4"))
    assert (share.lifetime, share.shape.group, share.shape.demand) == (250.0, "share", 460)
    assert (cpu.lifetime, cpu.shape.group, cpu.shape.models) == (None, "cpu", ())


def test_reads_gzip_and_does_without_optional_columns(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv.gz"
    with gzip.open(path, "wt") as file:
        file.write("cpu_milli,memory_mib,num_gpu,gpu_milli\n4000,1024,8,1000\n")
    (task,) = read_tasks(path)
    assert (task.shape.group, task.shape.demand, task.lifetime) == ("8", 8000, None)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("p,x,1,1,500,,,", "line 2: cpu_milli is 'x', not a number"),
        ("p,inf,1,1,500,,,", "cpu_milli is inf, not a whole number"),
        ("p,1,1,1,500,,0,nan", "times are '0' and 'nan', not seconds"),
        ("p,1.5,1,1,500,,,", "cpu_milli is 1.5, not a whole number"),
        ("p,-1,1,1,500,,,", "cpu_milli is -1"),
        ("p,1,1,1,1500,,,", "gpu_milli is 1500; per GPU it is between 1 and 1000"),
        ("p,1,1,1,0,,,", "gpu_milli is 0"),
        ("p,1,1,2,500,,,", "only one GPU can be shared"),
        ("p,1,1,1,500,,now,then", "times are 'now' and 'then'"),
        ("p,1", "num_gpu is None"),
        ("p,1,1,0,0,,,", "no task asks for a GPU"),
        ("", "has a header and nothing else"),
    ],
)
def test_says_what_is_wrong_with_a_task(tmp_path: Path, row: str, said: str) -> None:
    with pytest.raises(TraceError, match=r"trace\.csv") as error:
        read_tasks(written(tmp_path, TASKS + row + "\n"))
    assert said in str(error.value)


def test_says_what_is_wrong_with_a_file(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no column sn, gpu, model; it needs sn, cpu_milli"):
        read_hosts(written(tmp_path, "cpu_milli,memory_mib\n1,1\n"))
    with pytest.raises(TraceError, match="model is empty"):
        read_hosts(written(tmp_path, HOSTS + "a,1,1,2,\n"))
    with pytest.raises(TraceError, match="cannot be read"):
        read_hosts(tmp_path / "missing.csv")
    broken = tmp_path / "broken.csv.gz"
    broken.write_bytes(b"no gzip")
    with pytest.raises(TraceError, match="cannot be read"):
        read_tasks(broken)


@pytest.mark.parametrize("damage", [0.5, 1.0])
def test_says_that_a_file_is_damaged(tmp_path: Path, damage: float) -> None:
    """Cut off half-way, and whole but with other bytes in the middle."""
    path = tmp_path / "trace.csv.gz"
    rows = "".join(f"p{n},{1000 + n * n},1,1,500,,,\n" for n in range(500))
    whole = gzip.compress((TASKS + rows).encode())
    half = len(whole) // 2
    path.write_bytes(whole[:half] + (b"" if damage < 1 else bytes(64) + whole[half + 64 :]))
    with pytest.raises(TraceError, match=r"trace\.csv\.gz cannot be read"):
        read_tasks(path)


def test_the_traces_that_lie_here_are_whole() -> None:
    hosts = read_hosts(DATA / "openb_node_list_gpu_node.csv.gz")
    tasks = read_tasks(DATA / "openb_pod_list_default.csv.gz")
    assert (len(hosts), sum(host.gpus for host in hosts)) == (1213, 6212)
    assert (len(tasks), sum(task.shape.demand for task in tasks)) == (8152, 6_086_800)
