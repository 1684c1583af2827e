"""Two controllers on one PostgreSQL ledger: one works, and the other cannot do harm."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from uuid import UUID

import pytest

from tests.pgserver import PgServer
from vgpumgr.hosts.helper.helper_call import Identity
from vgpumgr.model.errors import ClaimLost
from vgpumgr.model.host import HostRecord
from vgpumgr.model.operation import OperationRecord, OperationState, Reservation
from vgpumgr.model.ports import Host
from vgpumgr.model.sim_fleet import SimFleet, SimHost
from vgpumgr.sim.in_process import InProcessHosts
from vgpumgr.sim.sim_client import Opened
from vgpumgr.store import open_ledger

RECORD = HostRecord(name="h1", address="sim://h1")


class Controller:
    """What the composition root puts together, of one process."""

    def __init__(self, url: str, reach: Callable[[Identity, Identity], Host]) -> None:
        self.ledger = open_ledger(url)
        fleet, ledger = self.ledger.fleet_id(), self.ledger
        self.host = reach(
            lambda: (fleet, ledger.spoken_epoch()), lambda: (fleet, ledger.fresh_epoch())
        )

    def change(self) -> None:
        """A verb that may change the host: nothing of that name is there."""
        claim = {"allocation": "a-1", "generation": 1, "vm": "v"}
        self.host.helper.call("mdev_remove", {"uuid": str(UUID(int=1)), "claim": claim})

    def begin(self, id_: str) -> None:
        self.ledger.reserve(
            Reservation(
                operation=OperationRecord(
                    id=id_, kind="apply", state=OperationState.RUNNING, epoch=1, started_at=1.0
                )
            )
        )

    def lock_session(self) -> int:
        """The server's process that keeps its claims."""
        return int(self.ledger._claims._backend)  # type: ignore[attr-defined]


@pytest.fixture
def controllers(pg: PgServer) -> Iterator[list[Controller]]:
    url = pg.database()
    with closing(InProcessHosts(SimFleet(name="tests", hosts=(SimHost(name="h1"),)))) as hosts:

        def reach(identity: Identity, renew: Identity) -> Host:
            return Opened(hosts._call, hosts.session, hosts._program, identity, 0.0, renew).open(
                RECORD
            )

        made = [Controller(url, reach) for _ in range(3)]
        yield made
        for each in made:
            each.ledger.close()


@pytest.mark.parametrize("has_spoken", [True, False])
def test_who_was_taken_over_from_can_not_change_a_host(
    controllers: list[Controller], pg: PgServer, has_spoken: bool
) -> None:
    dead, heir, bystander = controllers
    dead.begin("op-1")
    bystander.begin("op-2")
    for each in controllers if has_spoken else []:
        each.change()
    assert not heir.ledger.claim_operation("op-1")
    pg.sql(f"SELECT pg_terminate_backend({dead.lock_session()}, 5000)")
    assert heir.ledger.claim_operation("op-1")
    heir.change()
    with pytest.raises(ClaimLost):
        dead.change()
    # Who lost nothing goes on in the new epoch.
    bystander.change()
    assert bystander.ledger.spoken_epoch() == heir.ledger.spoken_epoch() == 2
    assert dead.ledger.spoken_epoch() == 1
