"""Desktops whose guests have checks: given only when ready, replaced when failed, never taken."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.poolsim import DESKTOP, PoolSim, spec
from vgpumgr.engine.vms import guest_checks
from vgpumgr.model.errors import VgpumgrError
from vgpumgr.model.guest import ChosenProfile, GuestSpec
from vgpumgr.model.vm_devices import CloudInit
from vgpumgr.sim.injection import inject

GUEST = GuestSpec(profiles=(ChosenProfile(name="docker"),), within_s=600.0)
NO_DAEMON = ("fails", "docker", "Cannot connect to the Docker daemon")


class GuestPool(PoolSim):
    """A pool of desktops with Docker in them."""

    def __init__(self, folder: Path, **sizes: int) -> None:
        desktop = replace(DESKTOP, agent=True, guest=GUEST, cloud_init=CloudInit())
        super().__init__(folder, spec(**sizes, desktop=desktop), "h1")

    def look(self, after_s: float = 0.0) -> None:
        """`serve`'s look at all guests, and its turn of the pools, so much later."""
        self.clock.wait(after_s)
        guest_checks.turn(self.engine, guest_checks.with_checks(self.engine))
        self.turn()

    def script(self, name: str, *words: str) -> None:
        inject(self.world.sim.host("h1"), ["guest", name, *words])


def test_a_desktop_is_given_only_when_its_guest_is_ready(tmp_path):
    pool = GuestPool(tmp_path)
    pool.turn()
    assert pool.states() == {"cad-01": "creating"}
    assert pool.assign("ada").desktop == ""
    pool.look()
    row = pool.rows()["cad-01"].desktop
    assert (str(row.state), row.session and row.session.user) == ("ready", "ada")


def test_a_desktop_whose_guest_failed_is_replaced_and_counted(tmp_path):
    pool = GuestPool(tmp_path)
    pool.turn()
    pool.script("cad-01", *NO_DAEMON)
    pool.look()
    pool.look(100)
    row = pool.rows()["cad-01"]
    assert (str(row.desktop.state), row.desktop.failures) == ("failed", 1)
    assert row.why == "its guest: Docker's daemon does not run"
    assert pool.states()["cad-02"] == "creating"
    pool.look(5)
    assert pool.states()["cad-02"] == "ready"
    pool.look(70)
    assert pool.states() == {"cad-02": "ready"}


def test_a_pool_gives_up_on_a_desktop_that_fails_ever_again(tmp_path):
    pool = GuestPool(tmp_path, most=1)
    for _ in range(40):
        for name, state in pool.states().items():
            if state == "creating":
                try:
                    pool.script(name, *NO_DAEMON)
                except VgpumgrError:
                    continue
        pool.look(100)
    row = pool.rows()["cad-01"]
    assert row.desktop.failures == pool.ledger.pools()[0].spec.autoheal.attempts
    assert str(row.desktop.state) == "failed"


def test_a_desktop_that_a_user_has_is_not_taken_by_a_check(tmp_path):
    pool = GuestPool(tmp_path)
    pool.turn()
    pool.look()
    pool.assign("ada")
    pool.script("cad-01", *NO_DAEMON)
    for _ in range(3):
        pool.look(300)
    row = pool.rows()["cad-01"]
    assert str(row.desktop.state) == "ready"
    assert row.desktop.session is not None
    assert str(pool.ledger.vm("cad-01").guest.phase) == "failed"


def test_a_ready_desktop_whose_check_fails_is_not_given(tmp_path):
    pool = GuestPool(tmp_path)
    pool.turn()
    pool.look()
    pool.script("cad-01", *NO_DAEMON)
    pool.look(300)
    assert pool.states()["cad-01"] == "creating"
    assert pool.assign("ada").desktop == ""
    pool.script("cad-01", "well")
    pool.look(10)
    assert pool.states()["cad-01"] == "ready"
