"""``kind: Pool``: what it says, and what is refused with its line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from vgpumgr.model.load_scale import LoadMetric, ScalePolicy, ScaleTrigger
from vgpumgr.model.pool import Naming, PoolKind, ScaleIn, Size, UpdateWhen
from vgpumgr.model.pool_schedule import Schedule
from vgpumgr.model.vm_devices import DiskMode
from vgpumgr.spec import Documents, SpecError, load

HEAD = "apiVersion: vgpumgr/v1\nkind: Pool\nname: cad\n"
LEAST = HEAD + "image: cad@12\ngpus: [{profile: L40S-8Q}]\nmax: 60\n"
WHOLE = LEAST + "entitlement: {groups: [design]}\n"
FULL = (
    WHOLE
    + """\
image_size: 60GiB
storage_pool: fast
vcpus: 8
memory: 16GiB
disks: [{size: 10GiB}]
networks: [{bridge: br0}]
policy: depth-first
tenant: design
names: ws-{n:3}
assignment: dedicated
min: 10
spare: 4
time_zone: Europe/Berlin
schedules:
  - {days: [mon-fri], from: "8:30", to: "18:00", min: 40, spare: 8}
  - {days: [fri-sun, tue], from: "22:00", to: "6:00", min: 2, spare: 1}
priority: high
update: {when: at-once, step: 3, min_ready: 8, soak: 10m, max_failures: 2, rollback: false}
idle_timeout: 30m
disconnect_timeout: 2h
autoheal: false
scale_in: shelve
"""
)


def read(text: str) -> Documents:
    return load(text, "p.yaml")


def problem(text: str) -> str:
    with pytest.raises(SpecError) as caught:
        read(text)
    (found,) = caught.value.problems
    return str(found)


def test_every_field_means_what_it_says() -> None:
    (pool,) = read(FULL).pools
    assert (pool.kind, pool.scale_in, pool.priority) == (PoolKind.DEDICATED, ScaleIn.SHELVE, 100)
    assert (pool.naming, pool.size) == (Naming("ws-", 3), Size(min=10, spare=4, max=60))
    assert pool.schedules == (
        Schedule(days=(0, 1, 2, 3, 4), start=510, end=1080, min=40, spare=8),
        Schedule(days=(1, 4, 5, 6), start=1320, end=360, min=2, spare=1),
    )
    assert (pool.timeouts.idle_s, pool.timeouts.disconnect_s) == (1800.0, 7200.0)
    assert (pool.update.when, pool.update.step, pool.update.min_ready) == (UpdateWhen.AT_ONCE, 3, 8)
    assert (pool.update.soak_s, pool.update.max_failures, pool.update.rollback) == (600.0, 2, False)
    assert pool.autoheal.attempts == 0
    assert pool.entitlement.admits("ann", {"design"})
    assert not pool.entitlement.admits("ann", {"sales"})
    assert pool.profile == "L40S-8Q"


def test_a_desktop_is_a_vm_with_an_overlay_of_the_image_first() -> None:
    vm = read(FULL).pools[0].desktop
    assert (vm.vcpus, vm.memory_mib, vm.tenant, vm.policy) == (8, 16384, "design", "depth-first")
    system, more = vm.disks
    assert (system.mode, system.image, system.pool) == (DiskMode.OVERLAY, "cad@12", "fast")
    assert (system.size_bytes, more.size_bytes) == (60 << 30, 10 << 30)


def test_what_is_left_out_has_a_default() -> None:
    (pool,) = read(WHOLE).pools
    assert (str(pool.naming), pool.kind) == ("cad-{n:2}", PoolKind.FLOATING)
    assert pool.size == Size(min=0, spare=1, max=60)


@pytest.mark.parametrize(
    ("lines", "place", "message"),
    [
        ("min: 61", "8:6: min", "61 is more than max: 60"),
        ("spare: 61", "8:8: spare", "61 is more than max: 60"),
        ("names: ws", "8:8: names", "'ws' is not a pattern of names"),
        ("names: -{n}", "8:8: names", "is not a pattern of names"),
        (f"names: {'x' * 62}{{n}}", "8:8: names", "is longer than 63 characters"),
        ("time_zone: Mars/Base", "8:12: time_zone", "is not a time zone that this machine knows"),
        ("time_zone: ../../etc", "8:12: time_zone", "is not a time zone that this machine knows"),
        ("idle_timeout: 30", "8:15: idle_timeout", "is not a duration"),
        ("assignment: floatin", "8:13: assignment", "did you mean floating?"),
        ("update: {min_ready: 60}", "8:21: update.min_ready", "none to update"),
        ("update: {step: 0}", "8:16: update.step", "must be at least 1"),
        ("display: true\nmemory: 1", "9:9: memory", "like 8GiB"),
        ("idle_below: 0%", "8:13: idle_below", "above 0% and up to 100%"),
        ("idle_below: 5", "8:13: idle_below", "text"),
        ("scale: {triggers: []}", "8:19: scale.triggers", "at least 1"),
        ("scale: {sustained: 5m}", "8:8: scale.triggers", "is missing"),
    ],
)
def test_bad_input_is_named_with_its_place(lines: str, place: str, message: str) -> None:
    found = problem(WHOLE + lines + "\n")
    assert found.startswith(f"p.yaml:{place}: ")
    assert message in found


TRIGGER = "{metric: gpu, threshold: 90%}"


@pytest.mark.parametrize(
    ("scale", "place", "message"),
    [
        (TRIGGER.replace("gpu", "gpus"), "triggers[0].metric", "did you mean gpu?"),
        (TRIGGER.replace("90%", "101%"), "triggers[0].threshold", "up to 100%"),
        (TRIGGER.replace("90%", "ninety"), "triggers[0].threshold", "write one like 90%"),
        (f"{TRIGGER}, {TRIGGER}", "triggers[1].metric", "gpu has a trigger already"),
    ],
)
def test_a_scale_that_cannot_be_is_named(scale: str, place: str, message: str) -> None:
    found = problem(f"{WHOLE}scale: {{triggers: [{scale}]}}\n")
    assert f"scale.{place}: " in found
    assert message in found


@pytest.mark.parametrize("name", ["sustained", "cooldown"])
def test_loads_are_not_kept_for_longer_than_a_day(name: str) -> None:
    found = problem(f"{WHOLE}scale: {{triggers: [{TRIGGER}], {name}: 25h}}\n")
    assert f"scale.{name}: " in found and "longer than a day" in found


def test_a_whole_gpu_tells_its_host_nothing() -> None:
    whole = re.sub(r"profile: [\w-]+", "profile: passthrough", WHOLE)
    measured = problem(f"{whole}scale: {{triggers: [{TRIGGER}]}}\n")
    assert "scale.triggers[0].metric: is never measured" in measured
    assert "idle_below: is never measured" in problem(f"{whole}idle_below: 5%\n")
    sessions = TRIGGER.replace("gpu", "sessions")
    (pool,) = read(f"{whole}scale: {{triggers: [{sessions}]}}\n").pools
    assert pool.scale is not None


def test_scale_and_idle_in_the_models_words() -> None:
    lines = f"scale: {{triggers: [{TRIGGER}], sustained: 2m, cooldown: 1h}}\nidle_below: 2.5%\n"
    (pool,) = read(WHOLE + lines).pools
    trigger = ScaleTrigger(metric=LoadMetric.GPU, threshold=0.9)
    assert pool.scale == ScalePolicy(triggers=(trigger,), sustained_s=120, cooldown_s=3600)
    assert pool.timeouts.idle_below == 0.025


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ('{days: [fri], from: "17:59", to: "20:00", min: 1, spare: 1}', "overlaps schedules[0]"),
        ('{days: [thu], from: "20:00", to: "20:00", min: 1, spare: 1}', "overlaps schedules[0]"),
        ('{days: [fr], from: "20:00", to: "21:00", min: 1, spare: 1}', "'fr' is not a day"),
        ('{days: [fri], from: "24:30", to: "21:00", min: 1, spare: 1}', "is not a time of day"),
        ('{days: [sat], from: "8:00", to: "9:00", min: 61, spare: 1}', "61 is more than max: 60"),
    ],
)
def test_schedules_that_cannot_be_are_named(entry: str, message: str) -> None:
    first = "  - {days: [mon-fri], from: 8:30, to: 18:00, min: 4, spare: 1}\n"
    found = problem(WHOLE + "schedules:\n" + first + f"  - {entry}\n")
    assert "p.yaml:10:" in found
    assert "schedules[1]" in found
    assert message in found


def test_a_pool_entitles_somebody() -> None:
    assert "entitles nobody" in problem(LEAST + "entitlement: {users: []}\n")
    assert "entitlement: is missing" in problem(LEAST)


@pytest.mark.parametrize(
    "other",
    [
        WHOLE.replace("name: cad", "name: other") + "names: cad-{n:2}\n",
        "apiVersion: vgpumgr/v1\nkind: VM\nname: cad-07\n",
        "apiVersion: vgpumgr/v1\nkind: VM\nname: cad\nreplicas: 3\n",
    ],
)
def test_names_that_collide_are_refused(other: str) -> None:
    found = problem(WHOLE + "---\n" + other)
    assert "duplicate VM name cad-" in found
    assert "first on line 3" in found


def test_an_unknown_profile_is_named_with_what_is_near() -> None:
    assert "did you mean L40S-8Q" in problem(WHOLE.replace("L40S-8Q", "L40S-8q1"))


def test_the_file_that_the_page_shows_is_read() -> None:
    page = (Path(__file__).parents[3] / "docs" / "pools.md").read_text()
    [pool] = read(page.split("```yaml\n")[1].split("```")[0]).pools
    assert (pool.name, pool.size, len(pool.schedules)) == ("cad", Size(min=2, spare=2, max=40), 1)
