"""A VM's cloud-init seed: a NoCloud ISO of its text, made as a volume."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, replace
from io import BytesIO
from typing import ClassVar

from vgpumgr import domainxml
from vgpumgr.engine.steps.step import Step, StepSurroundings
from vgpumgr.engine.steps.volume_steps import refuse_foreign, volume_seen
from vgpumgr.model.domain import VolumePlan
from vgpumgr.model.errors import Conflict
from vgpumgr.model.formats import fill_template
from vgpumgr.model.operation import Observed
from vgpumgr.model.ports import Clock, Host
from vgpumgr.model.vm import VmRecord
from vgpumgr.model.vm_devices import CloudInit

_LABEL = "cidata"


# cloud-init takes a seed only with user-data and meta-data in it; this one asks for nothing.
_NO_USER_DATA = "#cloud-config\n"


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
    return _iso({name: text.encode() for name, text in sorted(files.items())})


def _iso(files: dict[str, bytes]) -> bytes:
    from pycdlib import PyCdlib  # slow to import, and whoever lists steps makes no seed

    iso = PyCdlib()
    iso.new(interchange_level=3, joliet=3, rock_ridge="1.09", vol_ident=_LABEL)
    for name, data in files.items():
        iso.add_fp(
            BytesIO(data),
            len(data),
            iso_path=f"/{name.replace('-', '_').upper()}.;1",
            rr_name=name,
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


@dataclass(frozen=True, slots=True)
class CreateSeed(Step):
    """Make the cloud-init seed volume and fill it.

    The journal outlives the VM, so the step holds a digest: the text is read from the VM's record.
    """

    atomic: ClassVar[bool] = False

    plan: VolumePlan
    instance_id: str
    hostname: str
    cloud_init: CloudInit

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
        image = self._image(around.vm(self.hostname))
        refuse_foreign(host, self.plan.pool, self.plan.name)
        host.storage.create(self.plan.pool, domainxml.volume(self.plan))
        host.storage.upload(self.plan.pool, self.plan.name, image)

    def undo(self, host: Host) -> None:
        """Delete it."""
        host.storage.delete(self.plan.pool, self.plan.name)

    def _image(self, vm: VmRecord) -> bytes:
        """The NoCloud ISO of the text that the step was planned with; Conflict for any other."""
        text = filled(vm)
        if vm.id != self.instance_id or text is None or text.withheld() != self.cloud_init:
            raise Conflict(
                f"the cloud-init text of {vm.name} is not what its seed was planned with",
                why="the VM was changed since",
                next="vgpumgr operation list --open",
            )
        return build_seed(
            instance_id=text.instance_id or vm.id,
            hostname=vm.name,
            user_data=text.user_data,
            network_config=text.network_config,
        )
