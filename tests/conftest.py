"""What holds for every test: no settings of the machine leak in, and in CI a skip is a failure."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import hypothesis
import pytest

from tests import pgserver, sqltexts

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Read when NumPy is first imported. Threads of several workers on few cores wait for each other.

# How long an example takes is the machine's affair: no test fails for it.
hypothesis.settings.register_profile("vgpumgr", hypothesis.settings.default, deadline=None)
hypothesis.settings.load_profile("vgpumgr")

sqltexts.share()

BREADTH = ("e2e", "faults", "guards", "property", "race", "soak", "unit/benchmarks", "web")
"""Of these folders ``make test`` runs what is marked ``mainline``, the rest is thorough."""

_NUMBERS = count()


@pytest.fixture(scope="session")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where each test has a home of its own, if it wants one: nothing is made beforehand."""
    return tmp_path_factory.mktemp("homes")


@pytest.fixture(autouse=True)
def _own_settings(homes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests never read the user's config, ./vgpumgr.yaml or XDG folders."""
    for name in [name for name in os.environ if name.startswith("VGPUMGR_") and "TEST" not in name]:
        if name != "VGPUMGR_REWRITE_GOLDEN":
            monkeypatch.delenv(name)
    home = homes / str(next(_NUMBERS))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "state"))


@pytest.fixture(scope="session")
def pg() -> Iterator[pgserver.PgServer]:
    """A PostgreSQL server of this test process."""
    if pgserver.binaries() is None:
        pytest.skip("PostgreSQL is not installed")
    with pgserver.running() as server:
        yield server


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what ``make test`` leaves to ``make test-thorough``, or both to a release."""
    wide = [Path(__file__).parent / folder for folder in BREADTH]
    for item in items:
        in_breadth = any(map(item.path.is_relative_to, wide))
        if item.get_closest_marker("release") is not None:
            item.add_marker("thorough")
        if in_breadth and item.get_closest_marker("mainline") is None:
            item.add_marker("thorough")


def pytest_collection_finish() -> None:
    """The collected tests stay until the end: looking for garbage among them again and again takes
    a tenth of the time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):
    """In CI an unexpected skip fails: every marker but ``hw`` must run there."""
    outcome = yield
    report = outcome.get_result()
    if report.skipped and os.environ.get("CI") == "true" and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped in CI: {report.longrepr}"
