"""A VM's cloud-init seed: a NoCloud ISO of its text, made as a volume."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from io import BytesIO
from typing import ClassVar

from vgpumgr import domainxml, guests
from vgpumgr.engine.steps.step import Step, StepSurroundings
from vgpumgr.engine.steps.volume_steps import refuse_foreign, volume_seen
from vgpumgr.guests.filled_profile import Secret
from vgpumgr.model.domain import VolumePlan
from vgpumgr.model.errors import Conflict, HostRefused
from vgpumgr.model.formats import fill_template
from vgpumgr.model.guest import GuestSpec
from vgpumgr.model.operation import Observed
from vgpumgr.model.ports import Clock, Host
from vgpumgr.model.vm import VmRecord
from vgpumgr.model.vm_devices import CloudInit

_LABEL = "cidata"
# cloud-init takes a seed only with user-data and meta-data in it; this one asks for nothing.
_NO_USER_DATA = "#cloud-config\n"
# What a seed that was emptied has in it, and no other.
EMPTIED = "# emptied by vgpumgr when the guest was ready for the first time"


def build_seed(
    *,
    instance_id: str,
    hostname: str,
    user_data: str | None,
    network_config: str | None,
) -> bytes:
    """The ISO's bytes, with Rock Ridge and Joliet names.

    Two seeds of one input differ in nothing but the time stamps of the file system.
    """
    files = {
        "meta-data": json.dumps({"instance-id": instance_id, "local-hostname": hostname}),
        "user-data": _NO_USER_DATA if user_data is None else user_data,
    }
    if network_config is not None:
        files["network-config"] = network_config
    return _iso(files)


def _iso(files: Mapping[str, str]) -> bytes:
    """Files by their names, which may have one folder."""
    from pycdlib import PyCdlib  # slow to import, and whoever lists steps makes no seed

    iso = PyCdlib()
    iso.new(interchange_level=3, joliet=3, rock_ridge="1.09", vol_ident=_LABEL)
    for folder in sorted({name.partition("/")[0] for name in files if "/" in name}):
        iso.add_directory(f"/{folder.upper()}", rr_name=folder, joliet_path=f"/{folder}")
    for number, (name, text) in enumerate(sorted(files.items())):
        data, (folder, _, own) = text.encode(), name.rpartition("/")
        above = f"/{folder.upper()}" if folder else ""
        iso.add_fp(
            BytesIO(data),
            len(data),
            iso_path=f"{above}/F{number}.;1",
            rr_name=own,
            joliet_path=f"/{name}",
        )
    out = BytesIO()
    iso.write_fp(out)
    iso.close()
    return out.getvalue()


def filled(vm: VmRecord) -> CloudInit | None:
    """The seed's text with what the VM is put in, where that is asked for; None without a seed."""
    seed = vm.spec.cloud_init
    if seed is None or not seed.template:
        return seed
    values = {"name": vm.name, "host": vm.host, "tenant": vm.spec.tenant}

    def of(text: str | None) -> str | None:
        return None if text is None else fill_template(text, values)

    return replace(seed, user_data=of(seed.user_data), network_config=of(seed.network_config))


def guest_facts(vm: VmRecord, driver: str) -> dict[str, str]:
    """What texts of guest profiles may name of a VM; ``driver`` is the version of its host's."""
    count = sum(each.count for each in vm.spec.gpus)
    return {
        "name": vm.name,
        "host": vm.host,
        "tenant": vm.spec.tenant,
        "driver_branch": driver.partition(".")[0],
        "last_gpu": str(max(0, count - 1)),
    }


@dataclass(frozen=True, slots=True)
class CreateSeed(Step):
    """Make the cloud-init seed volume and fill it.

    The journal outlives the VM, so the step holds a digest: the text is read from the VM's record,
    secrets from their own place. ``driver`` is the version of the host's NVIDIA driver.
    """

    atomic: ClassVar[bool] = False

    plan: VolumePlan
    instance_id: str
    hostname: str
    cloud_init: CloudInit
    guest: GuestSpec | None = None
    driver: str = ""

    @property
    def summary(self) -> str:
        """A line for people."""
        return f"create cloud-init seed {self.plan.pool}/{self.plan.name}"

    def look(self, host: Host) -> Observed:
        """Is the volume there?"""
        return volume_seen(host, self.plan.pool, self.plan.name)

    def act(self, host: Host, clock: Clock) -> None:
        """It needs the VM's record: :meth:`within`."""
        self.within(host, StepSurroundings(clock, threading.Event(), lambda _: None))

    def within(self, host: Host, around: StepSurroundings) -> None:
        """Create it and upload; a volume of that name that we did not make is refused."""
        image = self._image(around.vm(self.hostname), around)
        refuse_foreign(host, self.plan.pool, self.plan.name)
        host.storage.create(self.plan.pool, domainxml.volume(self.plan))
        host.storage.upload(self.plan.pool, self.plan.name, image)

    def undo(self, host: Host) -> None:
        """Delete it."""
        host.storage.delete(self.plan.pool, self.plan.name)

    def _image(self, vm: VmRecord, around: StepSurroundings) -> bytes:
        """The ISO of the text that the step was planned with; Conflict for any other."""
        text = filled(vm)
        if (
            vm.id != self.instance_id
            or text is None
            or (text.withheld(), vm.spec.guest) != (self.cloud_init, self.guest)
        ):
            raise Conflict(
                f"the cloud-init text of {vm.name} is not what its seed was planned with",
                why="the VM was changed since",
                next="vgpumgr operation list --open",
            )
        image = seed_image(vm, text, self.driver, lambda name: _value(around, vm, name))
        if len(image) > self.plan.capacity_bytes:
            raise HostRefused(
                f"the seed of {vm.name} is too large",
                why=f"it has {len(image)} bytes, at most {self.plan.capacity_bytes} are possible",
                next="keep large files elsewhere, and have the guest fetch them",
            )
        return image


def seed_image(vm: VmRecord, text: CloudInit, driver: str, secret: Secret) -> bytes:
    """The ISO of a VM's seed. Conflict where its guest cannot be prepared so."""
    guest, facts = vm.spec.guest, guest_facts(vm, driver)
    if guest is None:
        own = text.user_data
    else:
        try:
            if vm.spec.os and guests.system(vm.spec.os).is_windows:
                return _iso(guests.windows_files(guest, vm.spec.os, facts, secret))
            own = guests.user_data(guest, vm.spec.os, facts, text.user_data, secret)
        except ValueError as error:
            raise Conflict(
                f"the guest of {vm.name} cannot be prepared",
                why=str(error),
                next="vgpumgr guest-profile show PROFILE",
            ) from error
    return build_seed(
        instance_id=text.instance_id or vm.id,
        hostname=vm.name,
        user_data=own,
        network_config=text.network_config,
    )


def emptied_image(vm: VmRecord, size: int) -> bytes:
    """The same without what prepares the guest, ``size`` bytes of it: nothing older stays behind.

    It keeps the instance's id: cloud-init takes a guest without it for another one, and makes its
    host keys again.
    """
    text = filled(vm) or CloudInit()
    image = build_seed(
        instance_id=text.instance_id or vm.id,
        hostname=vm.name,
        user_data=f"{_NO_USER_DATA}{EMPTIED}\n",
        network_config=text.network_config,
    )
    return image.ljust(size, b"\0")


def _value(around: StepSurroundings, vm: VmRecord, name: str) -> str:
    """A secret of the VM's tenant as text."""
    try:
        return around.secret(vm.spec.tenant, name).reveal().decode()
    except UnicodeDecodeError:
        raise Conflict(
            f"the secret {name} cannot be in the seed of {vm.name}",
            why="it is no text",
            next=f"base64 -w0 FILE | vgpumgr secret set {name} --tenant {vm.spec.tenant}",
        ) from None
