"""A ledger in which every table has a row, and every column that may be NULL has a value."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.unit.store import test_access as access
from tests.unit.store import test_images as images
from tests.unit.store import test_layouts as layouts
from tests.unit.store import test_pools as pools
from tests.unit.store import test_tickets as tickets
from tests.unit.store import test_vm_backups as backups
from tests.unit.store.test_queue import entry
from tests.unit.store.values import allocation, refused, start, vm
from vgpumgr.model.api_request import RequestKey, working_for
from vgpumgr.model.defrag import LogoffMove
from vgpumgr.model.desktop import Booking, DesktopRequest, DesktopRequestRecord
from vgpumgr.model.flavour import Flavour
from vgpumgr.model.holiday_calendar import HolidayCalendar
from vgpumgr.model.image import CopyState
from vgpumgr.model.licence import Edition, Licence
from vgpumgr.model.notification import NotificationRule
from vgpumgr.model.operation import PlaceRefused
from vgpumgr.model.power import PowerBudget, PowerCap
from vgpumgr.model.profile_disk import ProfileDisk
from vgpumgr.model.quota import Quota
from vgpumgr.model.refusal import Refusal
from vgpumgr.model.showback import PriceBook
from vgpumgr.model.snapshot import NO_SNAPSHOTS, DiskMoment, Snapshot
from vgpumgr.model.vm import VmPlace
from vgpumgr.model.vm_backup import BackupTarget
from vgpumgr.model.webhook import Webhook

HOOK = Webhook(id="w-1", name="log", url="https://log.example.org/", events=("vm.",))


def waiting(vm_id: str) -> LogoffMove:
    """A move of that VM that waits for a logoff."""
    return LogoffMove(
        id="m-1",
        vm_id=vm_id,
        vm="desk",
        user="ada",
        host="h1",
        leaves=("gpu-1",),
        takes=("gpu-2",),
        why="1 empty GPU",
        asked_at=1.0,
    )


def every_table(path: Path) -> None:
    """Make the ledger."""
    ledger, _ = pools.ledger_with(str(path), "cad-01")
    gpu = ledger.gpus()[0]
    taken = Snapshot(name="s", created_at=1.0, moment=DiskMoment.OFF, volumes=(("default", "v"),))
    desk = vm(
        "desk",
        id="vm-desk",
        moving_to=VmPlace(host="h2"),
        cpus=(1, 2),
        snapshots=NO_SNAPSHOTS.taken(taken),
    )
    begun = start(allocation(desk, gpu, [0, 1]), vms=[desk])
    ledger.reserve(begun)
    job, op = begun.tasks[0].id, begun.operation.id
    said = Refusal(at=1.0, host="h1", vm="desk", operation=op, task=job, what="start", why="no")
    ledger.record(PlaceRefused(task=job, refusal=said))
    ledger.refuse([refused("no", at=1.5)])
    ledger.reserve(layouts.applied(ledger, ledger.gpus()[0]))
    ledger.reserve(replace(start(vms=[vm("b")]), queued=(entry("waits"),)))
    ledger.set_quota(Quota(tenant="render", vms=1))
    ledger.take_desktops([pools.on(ledger.desktops()[0], pools.ADA)])
    ledger.ask_desktop(
        DesktopRequestRecord(id="a-1", pool="p-1", ask=DesktopRequest(user="eve", since=9.0))
    )
    ledger.set_secret("render", "licence", "0" * 64)
    ledger.set_flavour(Flavour(name="small", keys={"vcpus": 2}))
    ledger.set_backup_target(BackupTarget(name="vault", pool="backups"))
    ledger.enter_backup(backups.backup("b-1"))
    ledger.backup_lost("b-1")
    ledger.book(
        Booking(id="b-1", group="staff", profile="T4-4Q", count=1, start=10.0, end=20.0), "default"
    )
    images.begin(ledger, "o-image", images.COPY, images=(images.IMAGE,))
    images.end(ledger, "o-image-c-1", CopyState.THERE)
    ledger.ask_ticket(tickets.asked())
    ledger.await_logoff([waiting(desk.id)])
    ledger.bind_role(access.ADA_VIEWS)
    ledger.add_api_token(access.token(), access.HASH)
    ledger.begin_login(access.login("s-1"), access.HASH)
    key = RequestKey(user="ada", key="k-1", digest="d", endpoint="quota.set", attempt="a-1")
    with working_for(key):
        ledger.set_quota(Quota(tenant="paint", vms=1))
    ledger.end_request(key, {"answer": {"tenant": "paint"}})
    ledger.set_price_book(PriceBook(begins_at=1.0, currency="EUR", gpu_hour={"A40": "2.40"}))
    ledger.put_profile_disk(
        ProfileDisk(
            tenant="default",
            pool="cad",
            user="ada",
            storage_pool="nas",
            volume="profile-ada",
            size_bytes=1 << 33,
            keep=True,
            vm_id="vm-desk",
        )
    )
    ledger.set_power_budgets([PowerBudget(name="rack", watts=9000, hosts=("h1",))])
    ledger.set_power_cap(PowerCap(gpu="g-1", host="h1", limit_w=200, why="rack", since=1.0))
    ledger.set_calendar(HolidayCalendar(name="at", days={"2026-12-25": "Christmas"}))
    ledger.set_licence(Licence(edition=Edition.VWS, seats=10))
    ledger.set_notification(NotificationRule(name="mail", to=("ops@example.org",)))
    ledger.add_webhook(HOOK)
    ledger.webhook_delivered(HOOK.id, 1, 5.0)
    ledger.webhook_failed(HOOK.id, "no", 6.0)
    ledger.webhook_delivered(HOOK.id, 2, None)
    ledger.seal_trail(lambda head: f"{head.size} records")
    ledger.close()
