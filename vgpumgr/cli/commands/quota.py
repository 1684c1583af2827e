"""The commands `quota list`, `set` and `delete`: limits of tenants."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from vgpumgr.cli.command_context import Context, pass_context
from vgpumgr.cli.commands.completion import completed
from vgpumgr.cli.output import Column, list_options, print_list, say
from vgpumgr.endpoints.quotas import (
    DELETE_QUOTA,
    LIST_QUOTAS,
    NO_LIMIT,
    SET_QUOTA,
    NoLimit,
    OneTenant,
    SetQuota,
)
from vgpumgr.endpoints.shapes import Nothing
from vgpumgr.model.formats import exact_size, format_mib, parse_bytes, parse_mib
from vgpumgr.model.vm import NAME

Item = Mapping[str, Any]


def limit_text(name: str) -> Callable[[Item], str]:
    """``88 GiB of 96 GiB``; without a limit what is held alone."""

    def text(item: Item) -> str:
        used, limit = (_amount(name, item[part][name]) for part in ("used", "limits"))
        return f"{used} of {limit}" if item["limits"][name] is not None else used

    return text


def profiles_text(item: Item) -> str:
    """``A40-8Q 3 of 10``, of profiles that are limited."""
    used, limits = item["used"]["profiles"], item["limits"]["profiles"]
    return ", ".join(f"{name} {used.get(name, 0)} of {limits[name]}" for name in sorted(limits))


def _amount(name: str, number: int | None) -> str:
    if name == "gpu_memory_mib" and number:
        return format_mib(number)
    if name == "storage_bytes" and number:
        return exact_size(number)
    return str(number)


COLUMNS = (
    Column("TENANT", "tenant"),
    Column("GPU-MEMORY", limit_text("gpu_memory_mib")),
    Column("GPUS", limit_text("gpus")),
    Column("VCPUS", limit_text("vcpus")),
    Column("VMS", limit_text("vms")),
    Column("STORAGE", limit_text("storage_bytes")),
    Column("PROFILES", profiles_text),
    Column("RESERVED", lambda item: [f"{k}={v}" for k, v in item["reserved"].items()], wide=True),
    Column("WEIGHT", "weight", wide=True),
)


@click.group()
def quota() -> None:
    """What tenants may hold: list, set, delete."""


@quota.command("list")
@list_options
@pass_context
def list_(context: Context) -> None:
    """List usage and limits of every tenant."""
    print_list("Quota", context.read(LIST_QUOTAS, Nothing()).answer["items"], COLUMNS)


def _tenant(_ctx: click.Context, _param: click.Parameter, value: str) -> str:
    if not re.fullmatch(NAME, value):
        raise click.BadParameter(f"{value!r} is not a tenant's name: small letters, digits and -")
    return value


def _limit(parse: Callable[[str], int]) -> Callable[..., int | str | None]:
    """What reads a limit's flag: None where it was not given, ``none`` for no limit any more."""

    def read(_ctx: click.Context, _param: click.Parameter, value: str | None) -> int | str | None:
        if value is None or value == NO_LIMIT:
            return value
        try:
            return parse(value)
        except ValueError as error:
            raise click.BadParameter(str(error)) from error

    return read


def _count(text: str) -> int:
    if not re.fullmatch(r"\d{1,9}", text):
        raise ValueError(f"{text!r} is not a number of things: 0 or more, or {NO_LIMIT}")
    return int(text)


def _counts(
    _ctx: click.Context, _param: click.Parameter, values: Sequence[str]
) -> dict[str, int | NoLimit]:
    """``A40-8Q=10`` → the profile and its count."""
    found: dict[str, int | NoLimit] = {}
    for each in values:
        name, sign, count = each.rpartition("=")
        if not sign:
            raise click.BadParameter(f"{each!r} is not PROFILE=COUNT, like A40-8Q=10")
        try:
            found[name] = NO_LIMIT if count == NO_LIMIT else _count(count)
        except ValueError as error:
            raise click.BadParameter(str(error)) from error
    return found


@quota.command("set")
@click.argument("tenant", callback=_tenant, shell_complete=completed("tenants"))
@click.option(
    "--gpu-memory",
    "gpu_memory_mib",
    callback=_limit(parse_mib),
    metavar="SIZE",
    help="GPU memory, like 96GiB.",
)
@click.option(
    "--gpus",
    callback=_limit(_count),
    metavar="N",
    help="GPU parts: whole GPUs, vGPUs and MIG instances.",
)
@click.option("--vcpus", callback=_limit(_count), metavar="N")
@click.option("--vms", callback=_limit(_count), metavar="N")
@click.option(
    "--storage",
    "storage_bytes",
    callback=_limit(parse_bytes),
    metavar="SIZE",
    help="The sizes of disks, like 2TiB.",
)
@click.option(
    "--profile", "profiles", multiple=True, callback=_counts, metavar="PROFILE=N",
    help="GPU parts of one profile; may be repeated.",
)  # fmt: skip
@click.option(
    "--reserve", "reserved", multiple=True, callback=_counts, metavar="PROFILE=N",
    help="Reserved for the tenant: until it asks, only spot VMs of others use them.",
)  # fmt: skip
@click.option(
    "--weight",
    type=click.FloatRange(0.01, 1000.0),
    help="Its share in the queue at equal priority; 2 gets twice as much as 1.",
)
@pass_context
def set_(
    context: Context,
    /,
    tenant: str,
    profiles: dict[str, int | NoLimit],
    reserved: dict[str, int | NoLimit],
    weight: float | None,
    **limits: int | NoLimit | None,
) -> None:
    """Limit what a tenant may hold. Limits not named stay as they are; `none` lifts a limit.

    A tenant that holds more keeps it; nothing is stopped.
    """
    asked = SetQuota(
        tenant=tenant,
        profiles=profiles or None,
        reserved=reserved or None,
        weight=weight,
        **limits,
    )
    print_list("Quota", context.act(SET_QUOTA, asked).answer["items"], COLUMNS)


@quota.command()
@click.argument("tenant", shell_complete=completed("tenants"))
@pass_context
def delete(context: Context, tenant: str) -> None:
    """Remove a tenant's quota."""
    context.act(DELETE_QUOTA, OneTenant(tenant=tenant))
    say(f"tenant {tenant} has no quota any longer")
