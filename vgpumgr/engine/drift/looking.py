"""The closer look at one host: definitions, running devices and volumes of our VMs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from vgpumgr import domainxml
from vgpumgr.engine.drift.seen import Defined, Seen
from vgpumgr.engine.steps import OFF
from vgpumgr.model.domain import DomainFacts
from vgpumgr.model.drift import NotRead
from vgpumgr.model.errors import DeadlineExceeded, HostUnreachable, VgpumgrError
from vgpumgr.model.host import HostFacts
from vgpumgr.model.ports import Host
from vgpumgr.model.vm import VmRecord

K = TypeVar("K")
T = TypeVar("T")


def look(host: Host, facts: HostFacts, vms: Sequence[VmRecord]) -> Seen:
    """One question per definition, running VM and volume; what fails is named as not read."""
    asked = _Asked(host.name)
    names = {vm.name for vm in vms}
    domains = [each for each in facts.domains if each.name in names and each.ownership]
    definitions = asked.all(
        {d.name: (f"the definition of {d.name}", partial(_defined, host, d)) for d in domains}
    )
    running = [d for d in domains if d.state not in OFF and d.name in definitions]
    devices = asked.all(
        {d.name: (f"the devices of {d.name}", partial(_devices, host, d)) for d in running}
    )
    active = {pool.name for pool in facts.pools if pool.active}
    volumes = [volume for vm in vms for volume in vm.volumes if volume[0] in active]
    there = asked.all({v: (f"volume {v[0]}/{v[1]}", partial(_exists, host, *v)) for v in volumes})
    return Seen(
        facts=facts,
        definitions=definitions,
        running_devices=devices,
        volumes=there,
        not_read=tuple(asked.not_read),
    )


def _defined(host: Host, domain: DomainFacts) -> Defined | None:
    """A domain that runs and was undefined has no definition."""
    if not domain.persistent:
        return None
    xml = host.domains.xml(domain.name)
    return Defined(domainxml.parts(xml), domainxml.parse(xml).ownership)


def _devices(host: Host, domain: DomainFacts) -> Mapping[str, str]:
    return domainxml.parts(host.domains.live_xml(domain.name)).devices


def _exists(host: Host, pool: str, name: str) -> bool:
    return host.storage.look(pool, name) is not None


class _Asked:
    """Questions to one host; after one that it did not answer no more are asked."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._gone: VgpumgrError | None = None
        self.not_read: list[NotRead] = []

    def all(self, questions: Mapping[K, tuple[str, Callable[[], T | None]]]) -> dict[K, T]:
        """The answers that there are, by key; each question with the part that it is about."""
        answers = {key: self._read(part, question) for key, (part, question) in questions.items()}
        return {key: answer for key, answer in answers.items() if answer is not None}

    def _read(self, part: str, question: Callable[[], T]) -> T | None:
        """The answer, or None after noting why there is none."""
        if self._gone is not None:
            self._miss(part, self._gone.message)
            return None
        try:
            return question()
        except (HostUnreachable, DeadlineExceeded) as error:
            self._gone = error
            self._miss(part, error.message)
        except VgpumgrError as error:
            self._miss(part, error.why or error.message)
        except ValueError as error:
            self._miss(part, str(error))
        return None

    def _miss(self, part: str, why: str) -> None:
        self.not_read.append(NotRead(host=self._host, part=part, why=why))
