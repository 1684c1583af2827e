"""The rules for Prometheus: what is recorded, and what raises an alert; written out as one file.

A gap of a scrape or two neither raises an alert nor ends one: values of now are looked at over two
minutes. What is not told raises nothing, but for silence itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from vgpumgr import catalog
from vgpumgr.model.health import ActionClass

INFO, WARNING, CRITICAL = "info", "warning", "critical"
_JOIN = "on (host, UUID, vgpu) group_left (vm, tenant, pool, profile)"
_GPU = "{{ $labels.host }} GPU {{ $labels.gpu }}"
_HOST = "{{ $labels.host }}"
_SHOW = "vgpumgr top --host {{ $labels.host }}"


class Alert(NamedTuple):
    """One alert: ``lasts`` is how long its expression must hold; ``next`` can be typed."""

    name: str
    expr: str
    severity: str
    summary: str
    next: str
    lasts: str = ""


class Recorded(NamedTuple):
    """One recorded series: a join over all vGPUs is too dear to make for each look."""

    name: str
    expr: str


def lately(series: str) -> str:
    """The newest value of the last two minutes."""
    name, brace, labels = series.partition("{")
    return f"last_over_time({name}{brace}{labels}[2m])"


def xids_of(asks: ActionClass) -> str:
    """The codes of the catalogue that ask for that, as a regular expression."""
    return "|".join(
        str(each.number) for each in catalog.xids() if catalog.xid_class(each.number) is asks
    )


def _seen(asks: ActionClass) -> str:
    """An Xid that asks for that was counted in the last five minutes; a code whose series was not
    there then counts where another of the same GPU was.
    """
    series = f'vgpumgr_gpu_xid_total{{xid=~"{xids_of(asks)}"}}'
    before = 'on (host, UUID) vgpumgr_gpu_xid_total{xid="79"} offset 5m'
    born = f"(({series} > 0) unless {series} offset 5m) and {before}"
    return f"(increase({series}[5m]) > 0) or ({born})"


RECORDED = (
    Recorded(
        "vgpumgr:vgpu_utilization_ratio:owned",
        f'vgpumgr_vgpu_utilization_ratio{{engine="sm"}} * {_JOIN} vgpumgr_vgpu_info',
    ),
    Recorded(
        "vgpumgr:vgpu_framebuffer_used_bytes:owned",
        f"vgpumgr_vgpu_framebuffer_used_bytes * {_JOIN} vgpumgr_vgpu_info",
    ),
    Recorded(
        "vgpumgr:tenant_utilization:sum",
        "sum by (tenant, pool) (vgpumgr:vgpu_utilization_ratio:owned)",
    ),
    Recorded(
        "vgpumgr:tenant_framebuffer_used_bytes:sum",
        "sum by (tenant, pool) (vgpumgr:vgpu_framebuffer_used_bytes:owned)",
    ),
    Recorded(
        "vgpumgr:gpu_power_watts:sum",
        "sum by (host) (vgpumgr_gpu_power_watts)",
    ),
)


def _link(what: str) -> str:
    now = lately(f'vgpumgr_gpu_pcie_link{{what="{what}",of="now"}}')
    most = f'vgpumgr_gpu_pcie_link{{what="{what}",of="max"}}'
    return f"({now} < ignoring (of) {most})"


def alerts() -> tuple[Alert, ...]:
    """All of them."""
    return (*_of_gpus(), *_of_memory(), *_of_xids(), *_of_hosts(), *_of_room())


def _of_gpus() -> Iterator[Alert]:
    yield Alert(
        name="GpuBusy",
        expr=f"{lately('vgpumgr_gpu_utilization_ratio')} > 0.95",
        severity=WARNING,
        summary=f"{_GPU} has been more than 95 % busy for ten minutes",
        next=_SHOW,
        lasts="10m",
    )
    hot = lately('vgpumgr_gpu_temperature_celsius{sensor="gpu"}')
    margin = lately("vgpumgr_gpu_temperature_margin_celsius")
    yield Alert(
        name="GpuHot",
        expr=f"(max without (sensor) ({hot}) > 85) or ({margin} <= 0)",
        severity=CRITICAL,
        summary=f"{_GPU} is hotter than 85 °C, or has no margin left",
        next="vgpumgr host cordon {{ $labels.host }}; check the cooling",
    )
    yield Alert(
        name="GpuThrottledHw",
        expr="increase(vgpumgr_gpu_throttle_seconds_total"
        '{reason=~"hw_thermal|power_brake"}[5m]) > 10',
        severity=WARNING,
        summary=f"The hardware of {_GPU} held its clocks down: {{{{ $labels.reason }}}}",
        next=_SHOW,
    )
    busy = f"on (host, UUID) ({lately('vgpumgr_gpu_utilization_ratio')} > 0.05)"
    yield Alert(
        name="PcieDegraded",
        expr=f"({_link('width')} or {_link('gen')}) and {busy}",
        severity=WARNING,
        summary=f"The PCIe {{{{ $labels.what }}}} of {_GPU} is less than it can be, at work",
        next="vgpumgr gpu list --host {{ $labels.host }}; reseat the board",
        lasts="2m",
    )
    lost = lately('vgpumgr_gpu_health_state{state="lost"}')
    yield Alert(
        name="GpuLost",
        expr=f"max without (state) ({lost}) == 1",
        severity=CRITICAL,
        summary=f"{_GPU} does not answer: it fell off the bus, or is gone",
        next="vgpumgr host drain {{ $labels.host }}",
    )
    yield Alert(
        name="RecoveryActionSet",
        expr=f"{lately('vgpumgr_gpu_recovery_action')} > 0",
        severity=CRITICAL,
        summary=f"The driver asks for a recovery of {_GPU}: action {{{{ $value }}}}",
        next="vgpumgr doctor {{ $labels.host }}",
    )


def _of_memory() -> Iterator[Alert]:
    yield Alert(
        name="EccUncorrected",
        expr='increase(vgpumgr_gpu_ecc_errors_total{type="uncorrected",since="boot"}[10m]) > 0',
        severity=WARNING,
        summary=f"{_GPU} had an uncorrectable memory error",
        next=_SHOW,
    )
    yield Alert(
        name="RowRemapPending",
        expr=f"{lately('vgpumgr_gpu_row_remap_pending')} == 1",
        severity=INFO,
        summary=f"A memory row of {_GPU} was replaced; that waits for a reset",
        next="reset the GPU when nothing runs on it",
    )
    yield Alert(
        name="RowRemapFailed",
        expr=f"{lately('vgpumgr_gpu_row_remap_failed')} == 1",
        severity=CRITICAL,
        summary=f"A memory row of {_GPU} could not be replaced: the board is to be replaced",
        next="vgpumgr host drain {{ $labels.host }}",
    )


def _of_xids() -> Iterator[Alert]:
    what = f"Xid {{{{ $labels.xid }}}} of {_GPU}"
    yield Alert(
        name="XidReset",
        expr=_seen(ActionClass.RESET),
        severity=CRITICAL,
        summary=f"{what}: the GPU needs a reset",
        next="vgpumgr gpu list --host {{ $labels.host }}, then vgpumgr gpu reset",
    )
    yield Alert(
        name="XidReboot",
        expr=_seen(ActionClass.RESTART_HOST),
        severity=CRITICAL,
        summary=f"{what}: the host needs a restart",
        next="vgpumgr host drain {{ $labels.host }}",
    )
    yield Alert(
        name="XidResetWhenIdle",
        expr=_seen(ActionClass.RESET_WHEN_IDLE),
        severity=INFO,
        summary=f"{what}: what was recorded takes effect at the next reset of the GPU",
        next="vgpumgr gpu list --host {{ $labels.host }}",
    )
    yield Alert(
        name="XidCheck",
        expr=_seen(ActionClass.CHECK),
        severity=WARNING,
        summary=f"{what}: its hardware or software is to be looked at",
        next="vgpumgr doctor {{ $labels.host }}",
    )
    yield Alert(
        name="XidApp",
        expr=_seen(ActionClass.GUEST),
        severity=INFO,
        summary=f"{what}: the work that met it has to start again",
        next="vgpumgr allocation list",
    )


def _of_hosts() -> Iterator[Alert]:
    yield Alert(
        name="HostSilent",
        expr=f"{lately('vgpumgr_host_up')} == 0",
        severity=WARNING,
        summary=f"{_HOST} tells no figures",
        next="vgpumgr doctor {{ $labels.host }}",
        lasts="1m",
    )
    yield Alert(
        name="ProbeHung",
        expr=f"{lately('vgpumgr_host_probe_hung')} == 1",
        severity=WARNING,
        summary=f"The driver of {_HOST}, or the host, does not answer in time",
        next="vgpumgr host cordon {{ $labels.host }}",
        lasts="1m",
    )
    yield Alert(
        name="LicenseLost",
        expr=f"({lately('vgpumgr_vgpu_licensed')} == 0) * {_JOIN} vgpumgr_vgpu_info",
        severity=WARNING,
        summary="The guest of {{ $labels.vm }} on {{ $labels.host }} has no licence",
        next="check the licence server, and the guest's gridd.conf",
        lasts="5m",
    )
    yield Alert(
        name="DriverDrift",
        expr="count by (branch) (count by (branch, driver) (vgpumgr_host_driver_info)) > 1",
        severity=INFO,
        summary="Hosts have different releases of {{ $labels.branch }}",
        next="vgpumgr host list -o wide",
        lasts="1h",
    )
    age = "time() - vgpumgr_telemetry_sampled_timestamp_seconds > 60"
    yield Alert(
        name="ScrapeStale",
        expr=f"({age}) or absent(vgpumgr_telemetry_sampled_timestamp_seconds)",
        severity=CRITICAL,
        summary="vgpumgr's series are not renewed",
        next="systemctl status vgpumgr-serve vgpumgr-api",
        lasts="1m",
    )


def _of_room() -> Iterator[Alert]:
    yield Alert(
        name="FragmentationHigh",
        expr=f"{lately('vgpumgr_fragmentation_ratio')} > 0.30",
        severity=WARNING,
        summary="More than 30 % of the free GPU memory is unusable",
        next="vgpumgr defrag plan",
        lasts="15m",
    )
    yield Alert(
        name="SpareNotStartable",
        expr=f"{lately('vgpumgr_pool_spare_startable')} == 0",
        severity=WARNING,
        summary="No further desktop of pool {{ $labels.pool }} could start",
        next="vgpumgr pool explain {{ $labels.pool }}",
        lasts="5m",
    )
    yield Alert(
        name="RackOverBudget",
        expr=f"{lately('vgpumgr_rack_power_watts')} > {lately('vgpumgr_rack_power_budget_watts')}",
        severity=CRITICAL,
        summary="The GPUs of rack {{ $labels.rack }} draw more than their budget",
        next="vgpumgr top",
        lasts="1m",
    )


def rules_document() -> dict[str, Any]:
    """The file of rules as plain data."""
    recorded = [{"record": each.name, "expr": each.expr} for each in RECORDED]
    return {
        "groups": [
            {"name": "vgpumgr-recorded", "interval": "30s", "rules": recorded},
            {"name": "vgpumgr-alerts", "interval": "15s", "rules": [*map(_rule, alerts())]},
        ]
    }


def _rule(alert: Alert) -> dict[str, Any]:
    lasts = {"for": alert.lasts} if alert.lasts else {}
    return {
        "alert": alert.name,
        "expr": alert.expr,
        **lasts,
        "labels": {"severity": alert.severity},
        "annotations": {"summary": alert.summary, "next": alert.next},
    }


def rules_text() -> str:
    """The file of rules, as Prometheus reads it."""
    import yaml

    head = "# Rules of vgpumgr for Prometheus 2.42 and later: vgpumgr metrics rules\n"
    return head + yaml.safe_dump(rules_document(), sort_keys=False, width=100, allow_unicode=True)
