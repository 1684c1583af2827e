"""``os:`` and ``guest:`` of a VM or a pool: the operating system, the machine that it takes, and
what is made of the guest.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)

from vgpumgr import guests
from vgpumgr.model.formats import format_mib
from vgpumgr.model.guest import ChosenProfile, GuestSpec
from vgpumgr.spec.fields import Duration, Line, Name, Strict, refuse, seconds
from vgpumgr.spec.spec_file import did_you_mean, either

# The profile behind ``preload``.
PRELOAD = "preload-data"
_NEEDED = {"tpm": "a TPM 2.0", "secure_boot": "secure boot"}


def _known_system(name: str) -> str:
    known = guests.systems()
    if name not in known:
        refuse(f"must be {either(known)}{did_you_mean(name, known)}")
    return name


System = Annotated[
    Line, AfterValidator(_known_system), Field(json_schema_extra={"enum": list(guests.systems())})
]


def implied_switches(name: str | None) -> Collection[str]:
    """The switches that a VM with that system has without being told."""
    return guests.system(name).needs if name else ()


def check_system(
    name: str, *, refused: Collection[str], firmware: str, vcpus: int, memory_mib: int
) -> None:
    """Refuse a machine that the system cannot be installed on; ``refused`` are the switches that
    the document says are off.
    """
    system = guests.system(name)
    for switch in system.needs:
        if switch in refused:
            refuse(f"{name} starts with {_NEEDED[switch]} alone: leave {switch} out", switch)
    if system.firmware and firmware != system.firmware:
        refuse(f"{name} starts from {system.firmware} alone: leave firmware out", "firmware")
    if vcpus < system.least_vcpus:
        refuse(f"{name} is installed on {system.least_vcpus} vCPUs or more", "vcpus")
    if memory_mib < system.least_memory_mib:
        refuse(f"{name} is installed with {format_mib(system.least_memory_mib)} or more", "memory")


def _texts(parameters: object) -> object:
    """Numbers and switches as a user writes them are text to a profile."""
    if not isinstance(parameters, dict):
        return parameters
    return {key: _text(value) for key, value in parameters.items()}


def _text(value: object) -> object:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value) if isinstance(value, int) else value


def _known_profile(name: str) -> str:
    known = guests.profiles()
    if name not in known:
        refuse(f"no guest profile {name}: known are {', '.join(known)}{did_you_mean(name, known)}")
    return name


Parameters = Annotated[
    dict[Line, Annotated[str, StringConstraints(max_length=16_384)]],
    BeforeValidator(_texts),
    Field(max_length=32),
]


class GuestProfileModel(Strict):
    """One guest profile, with its parameters."""

    name: Annotated[Line, AfterValidator(_known_profile)]
    parameters: Parameters = Field(default={})

    def value(self) -> ChosenProfile:
        """The choice in the model's words."""
        return ChosenProfile(name=self.name, parameters=dict(self.parameters))


def _named(value: object) -> object:
    """``docker`` is a profile without parameters."""
    return {"name": value} if isinstance(value, str) else value


Profile = Annotated[
    GuestProfileModel, BeforeValidator(_named, json_schema_input_type=str | GuestProfileModel)
]


class PreloadModel(Strict):
    """Data that is copied into the guest before it is ready."""

    model_config = ConfigDict(populate_by_name=True)

    source: Line = Field(alias="from")
    to: Line

    def value(self) -> ChosenProfile:
        """The profile that does it."""
        return ChosenProfile(name=PRELOAD, parameters={"from": self.source, "to": self.to})


class GuestModel(Strict):
    """What is made of the guest at its first boot, and when it is ready."""

    profiles: list[Profile] = Field(default=[], max_length=32)
    user: Line | None = None
    password: Name | None = None
    locale: Line | None = None
    time_zone: Line | None = None
    product_key: Name | None = None
    preload: list[PreloadModel] = Field(default=[], max_length=16)
    ready_within: Duration = "30m"

    @model_validator(mode="after")
    def _owned(self) -> GuestModel:
        if self.password is not None and self.user is None:
            refuse("is of an account: add user", "password")
        return self

    def value(self) -> GuestSpec:
        """The guest in the model's words."""
        return GuestSpec(
            profiles=(
                *(each.value() for each in self.profiles),
                *(each.value() for each in self.preload),
            ),
            user=self.user or "",
            password=self.password or "",
            locale=self.locale or "",
            time_zone=self.time_zone or "",
            product_key=self.product_key or "",
            within_s=float(seconds(self.ready_within)),
        )

    def check(
        self, system_name: str | None, *, gpus: bool, firmware: str, user_data: str | None
    ) -> None:
        """Refuse profiles that the VM cannot have, and texts that do not go together."""
        name = system_name or guests.DEFAULT_SYSTEM
        system = guests.system(name)
        if system.is_windows and self.preload:
            refuse(f"is for Linux, and the VM is {name}", "guest", "preload")
        chosen = [each.name for each in self.profiles]
        for number, each in enumerate(chosen):
            profile, at = guests.profile(each), ("guest", "profiles", number)
            if not guests.suits(profile, system):
                refuse(f"{each} is for {either(profile.systems)}, and the VM is {name}", *at)
            if "gpus" in profile.needs and not gpus:
                refuse(f"{each} is for a VM with gpus", *at)
            if each in chosen[:number] and not profile.repeats:
                refuse(f"{each} is there twice", *at)
        if system.is_windows and firmware != "uefi":
            refuse("the answer file partitions for UEFI: leave firmware out", "firmware")
        if system.is_windows and user_data is not None:
            refuse(f"{name} has no cloud-init: leave it out", "cloud_init", "user_data")
        self._check_parts(name, user_data)

    def _check_parts(self, name: str, user_data: str | None) -> None:
        try:
            guests.check(self.value(), name, user_data)
        except guests.ProfileError as error:
            refuse(str(error), "guest", *self._place(error))
        except guests.CloudConfigError as error:
            own = str(error).startswith(("begins", "is no"))
            refuse(str(error), *(("cloud_init", "user_data") if own else ("guest",)))
        except ValueError as error:
            refuse(str(error), "guest")

    def _place(self, error: guests.ProfileError) -> tuple[str | int, ...]:
        """The key that the error is about."""
        if error.parameter in type(self).model_fields:
            return (error.parameter,) if getattr(self, error.parameter) is not None else ()
        for number, each in enumerate(self.profiles):
            if error.parameter in each.parameters:
                return ("profiles", number, "parameters", error.parameter)
        for number, data in enumerate(self.preload):
            if error.parameter == "to" or data.source in str(error):
                return "preload", number
        return ("profiles",) if self.profiles else ()
