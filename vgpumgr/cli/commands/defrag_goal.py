"""What defragmentation is asked for on the command line."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import click

from vgpumgr.cli.commands.capacity import MemoryType
from vgpumgr.cli.context import Context
from vgpumgr.cli.views.users import with_users_option
from vgpumgr.model.defrag import Empty, Goal, Room
from vgpumgr.model.errors import UnknownProfile, UsageError
from vgpumgr.model.vm import GpuRequest, VmSpec

F = TypeVar("F", bound=Callable[..., None])


def wanted_options(command: F) -> F:
    """The goal, and what is allowed for it."""
    options = (
        click.option(
            "--free", type=click.IntRange(1), metavar="N", help="Goal: N empty GPUs in total."
        ),
        click.option(
            "--for",
            "profile",
            metavar="PROFILE",
            help="Goal: room for VMs with one GPU part of this profile.",
        ),
        click.option(
            "--count", type=click.IntRange(1, 10_000), help="Number of VMs of --for; default 1."
        ),
        click.option(
            "--vcpus", type=click.IntRange(1, 512), help="vCPUs per VM of --for; default 2."
        ),
        click.option("--memory", type=MemoryType(), help="Memory per VM of --for; default 4GiB."),
        click.option(
            "--max-moves", type=click.IntRange(0), metavar="N", help="At most this many moves."
        ),
        click.option(
            "--allow-cold",
            is_flag=True,
            help="Stop VMs that cannot move running; none that a user is at work on.",
        ),
        with_users_option,
        click.option(
            "--at-logoff",
            is_flag=True,
            help="Desktops may be stopped: free ones now, used ones once their users log off.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def goal_of(
    free: int | None,
    profile: str | None,
    count: int | None,
    vcpus: int | None,
    memory: int | None,
) -> Goal | None:
    """None: the gauge. UsageError for two goals, and for what belongs to a goal not given."""
    if free is not None and profile is not None:
        raise UsageError("--free and --for are different goals", next="give one of them")
    if profile is None:
        given = {"--count": count, "--vcpus": vcpus, "--memory": memory}
        alone = [name for name, value in given.items() if value is not None]
        if alone:
            raise UsageError(f"{', '.join(alone)} needs --for", next="give the profile with --for")
        return None if free is None else Empty(gpus=free)
    part = GpuRequest(profile=profile)
    request = VmSpec(name="defrag", vcpus=vcpus or 2, memory_mib=memory or 4096, gpus=(part,))
    return Room(request=request, count=count or 1)


def require_made(context: Context, profile: str) -> None:
    """UnknownProfile for what no GPU of the fleet makes."""
    from vgpumgr.engine.supply import build_fleet
    from vgpumgr.engine.view import read_view

    fleet = build_fleet(read_view(context.app.ledger))
    offers = (o for host in fleet.hosts for gpu in host.gpus for o in gpu.offers)
    if not any(profile in (offer.profile, *offer.names) for offer in offers):
        raise UnknownProfile(f"no GPU of the fleet can provide {profile}", next="vgpumgr capacity")
