"""Dashboards for Grafana, written out as its JSON: the fleet, a host, a GPU, pools and tenants.

A panel's queries are in terms of the contract and of what the rules record; every one is asked of a
real Prometheus by a test. Source of the format: Grafana's dashboard schema, version 39.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

SCHEMA_VERSION = 39
_COLUMNS, _HEIGHT = 24, 8
_DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
SERIES, NUMBER, TABLE = "timeseries", "stat", "table"
_RATIO, _BYTES, _WATTS, _CELSIUS = "percentunit", "bytes", "watt", "celsius"
_SHORT, _BYTES_S, _HERTZ, _SECONDS = "short", "Bps", "hertz", "s"


class Panel(NamedTuple):
    """One panel: ``queries`` are pairs of an expression and how its lines are called."""

    title: str
    unit: str
    queries: Sequence[tuple[str, str]]
    kind: str = SERIES
    width: int = 12


class Dashboard(NamedTuple):
    """One dashboard: ``variables`` are pairs of a name and the query of its values."""

    uid: str
    title: str
    variables: Sequence[tuple[str, str]]
    panels: Sequence[Panel]


_OF_HOST = '{host=~"$host"}'
_OF_GPU = '{host=~"$host",gpu=~"$gpu"}'
_HOSTS = ("host", "label_values(vgpumgr_gpu_info, host)")
_GPUS = ("gpu", 'label_values(vgpumgr_gpu_info{host=~"$host"}, gpu)')
_TENANTS = ("tenant", "label_values(vgpumgr_vgpu_info, tenant)")
_POOLS = ("pool", "label_values(vgpumgr_pool_desktops, pool)")
_GPU_NAME, _VM_NAME = "{{host}} {{gpu}}", "{{vm}} ({{profile}})"

FLEET = Dashboard(
    uid="vgpumgr-fleet",
    title="vgpumgr: fleet",
    variables=(),
    panels=(
        Panel("GPUs", _SHORT, [("count(vgpumgr_gpu_info)", "")], NUMBER, 4),
        Panel("vGPUs and GPUs of VMs", _SHORT, [("count(vgpumgr_vgpu_info)", "")], NUMBER, 4),
        Panel("Busy", _RATIO, [("avg(vgpumgr_gpu_utilization_ratio)", "")], NUMBER, 4),
        Panel("Power", _WATTS, [("sum(vgpumgr_gpu_power_watts)", "")], NUMBER, 4),
        Panel("Unusable free memory", _RATIO, [("vgpumgr_fragmentation_ratio", "")], NUMBER, 4),
        Panel("Hosts that answer", _SHORT, [("sum(vgpumgr_host_up)", "")], NUMBER, 4),
        Panel(
            "GPUs by health",
            _SHORT,
            [("sum by (state) (vgpumgr_gpu_health_state)", "{{state}}")],
        ),
        Panel(
            "Memory of GPUs",
            _BYTES,
            [
                ("sum(vgpumgr_gpu_framebuffer_total_bytes)", "all"),
                ("sum(vgpumgr_gpu_framebuffer_allocated_bytes)", "held by VMs"),
                ("sum(vgpumgr_gpu_framebuffer_used_bytes)", "in use"),
                ("sum(vgpumgr_gpu_framebuffer_stranded_bytes)", "free and unusable"),
            ],
        ),
        Panel("Busiest GPUs", _RATIO, [("topk(10, vgpumgr_gpu_utilization_ratio)", _GPU_NAME)]),
        Panel(
            "Hottest GPUs",
            _CELSIUS,
            [('topk(10, vgpumgr_gpu_temperature_celsius{sensor="gpu"})', _GPU_NAME)],
        ),
        Panel(
            "More VMs that fit",
            _SHORT,
            [("topk(15, vgpumgr_headroom)", "{{profile}}")],
            TABLE,
        ),
        Panel("Power by rack", _WATTS, [("vgpumgr_rack_power_watts", "{{rack}}")]),
        Panel(
            "Xids in an hour",
            _SHORT,
            [("sum by (host, xid) (increase(vgpumgr_gpu_xid_total[1h]))", "{{host}} {{xid}}")],
        ),
        Panel(
            "Operations in an hour",
            _SHORT,
            [
                (
                    "sum by (kind, outcome) (increase(vgpumgr_operations_total[1h]))",
                    "{{kind}} {{outcome}}",
                )
            ],
        ),
        Panel(
            "Drivers",
            _SHORT,
            [("count by (driver, branch) (vgpumgr_host_driver_info)", "{{driver}}")],
            TABLE,
        ),
        Panel(
            "Age of the last probe",
            _SECONDS,
            [("topk(10, vgpumgr_host_probe_age_seconds)", "{{host}}")],
        ),
    ),
)
HOST = Dashboard(
    uid="vgpumgr-host",
    title="vgpumgr: host",
    variables=(_HOSTS,),
    panels=(
        Panel("Answers", _SHORT, [(f"vgpumgr_host_up{_OF_HOST}", "{{host}}")], NUMBER, 6),
        Panel("Power", _WATTS, [(f"sum(vgpumgr_gpu_power_watts{_OF_HOST})", "")], NUMBER, 6),
        Panel(
            "Figures took",
            _SECONDS,
            [(f"vgpumgr_host_probe_duration_seconds{_OF_HOST}", "{{host}}")],
            NUMBER,
            6,
        ),
        Panel("Hangs", _SHORT, [(f"vgpumgr_host_probe_hung{_OF_HOST}", "{{host}}")], NUMBER, 6),
        Panel("Busy", _RATIO, [(f"vgpumgr_gpu_utilization_ratio{_OF_HOST}", _GPU_NAME)]),
        Panel(
            "Memory in use", _BYTES, [(f"vgpumgr_gpu_framebuffer_used_bytes{_OF_HOST}", _GPU_NAME)]
        ),
        Panel(
            "Temperature",
            _CELSIUS,
            [(f"vgpumgr_gpu_temperature_celsius{_OF_HOST}", _GPU_NAME + " {{sensor}}")],
        ),
        Panel("Power by GPU", _WATTS, [(f"vgpumgr_gpu_power_watts{_OF_HOST}", _GPU_NAME)]),
        Panel(
            "VMs on this host",
            _RATIO,
            [(f"vgpumgr:vgpu_utilization_ratio:owned{_OF_HOST}", _VM_NAME)],
        ),
        Panel(
            "Memory of VMs",
            _BYTES,
            [(f"vgpumgr:vgpu_framebuffer_used_bytes:owned{_OF_HOST}", _VM_NAME)],
        ),
        Panel("GPUs", _SHORT, [(f"vgpumgr_gpu_info{_OF_HOST}", "")], TABLE, 24),
    ),
)
GPU = Dashboard(
    uid="vgpumgr-gpu",
    title="vgpumgr: GPU",
    variables=(_HOSTS, _GPUS),
    panels=(
        Panel(
            "Busy",
            _RATIO,
            [
                (f"vgpumgr_gpu_utilization_ratio{_OF_GPU}", "all engines"),
                (f"vgpumgr_gpu_memory_copy_utilization_ratio{_OF_GPU}", "memory"),
                (f"vgpumgr_gpu_encoder_utilization_ratio{_OF_GPU}", "encoders"),
                (f"vgpumgr_gpu_decoder_utilization_ratio{_OF_GPU}", "decoders"),
            ],
        ),
        Panel(
            "Memory",
            _BYTES,
            [
                (f"vgpumgr_gpu_framebuffer_total_bytes{_OF_GPU}", "all"),
                (f"vgpumgr_gpu_framebuffer_used_bytes{_OF_GPU}", "in use"),
                (f"vgpumgr_gpu_framebuffer_reserved_bytes{_OF_GPU}", "the driver's"),
                (f"vgpumgr_gpu_framebuffer_allocated_bytes{_OF_GPU}", "held by VMs"),
            ],
        ),
        Panel(
            "Temperature",
            _CELSIUS,
            [
                (f"vgpumgr_gpu_temperature_celsius{_OF_GPU}", "{{sensor}}"),
                (f"vgpumgr_gpu_temperature_margin_celsius{_OF_GPU}", "margin"),
            ],
        ),
        Panel(
            "Power",
            _WATTS,
            [
                (f"vgpumgr_gpu_power_watts{_OF_GPU}", "draws"),
                (f"vgpumgr_gpu_power_limit_watts{_OF_GPU}", "limit: {{kind}}"),
                (f"rate(vgpumgr_gpu_energy_joules_total{_OF_GPU}[5m])", "by its energy"),
            ],
        ),
        Panel("Clocks", _HERTZ, [(f"vgpumgr_gpu_clock_hertz{_OF_GPU}", "{{domain}}")]),
        Panel(
            "Clocks held down",
            _RATIO,
            [(f"rate(vgpumgr_gpu_throttle_seconds_total{_OF_GPU}[5m])", "{{reason}}")],
        ),
        Panel(
            "PCIe",
            _BYTES_S,
            [(f"rate(vgpumgr_gpu_pcie_bytes_total{_OF_GPU}[5m])", "{{direction}}")],
        ),
        Panel("PCIe link", _SHORT, [(f"vgpumgr_gpu_pcie_link{_OF_GPU}", "{{what}} {{of}}")], TABLE),
        Panel(
            "PCIe replays", _SHORT, [(f"increase(vgpumgr_gpu_pcie_replays_total{_OF_GPU}[1h])", "")]
        ),
        Panel("Xids", _SHORT, [(f"vgpumgr_gpu_xid_total{_OF_GPU}", "{{xid}}")], TABLE),
        Panel(
            "Memory errors and rows",
            _SHORT,
            [
                (f"vgpumgr_gpu_ecc_errors_total{_OF_GPU}", "{{type}} since {{since}}"),
                (f"vgpumgr_gpu_remapped_rows{_OF_GPU}", "rows: {{cause}}"),
                (f"vgpumgr_gpu_row_remap_pending{_OF_GPU}", "a row waits for a reset"),
                (f"vgpumgr_gpu_row_remap_failed{_OF_GPU}", "no spare row"),
            ],
        ),
        Panel(
            "NVLink",
            _BYTES_S,
            [(f"rate(vgpumgr_gpu_nvlink_bytes_total{_OF_GPU}[5m])", "{{direction}}")],
        ),
        Panel(
            "vGPUs",
            _RATIO,
            [(f"vgpumgr:vgpu_utilization_ratio:owned{_OF_GPU}", _VM_NAME)],
        ),
        Panel(
            "Screens of vGPUs",
            _SHORT,
            [
                (f"vgpumgr_vgpu_capture_frames_per_second{_OF_GPU}", "{{vgpu}} fps"),
                (f"vgpumgr_vgpu_encoder_sessions{_OF_GPU}", "{{vgpu}} sessions"),
            ],
        ),
        Panel(
            "MIG instances", _RATIO, [(f"vgpumgr_gi_sm_utilization_ratio{_OF_GPU}", "GI {{gi}}")]
        ),
        Panel(
            "Memory of MIG instances",
            _BYTES,
            [(f"vgpumgr_gi_framebuffer_used_bytes{_OF_GPU}", "GI {{gi}}")],
        ),
        Panel(
            "More that fit", _SHORT, [('vgpumgr_profile_creatable{host=~"$host"}', "{{profile}}")]
        ),
    ),
)
TENANTS = Dashboard(
    uid="vgpumgr-tenants",
    title="vgpumgr: pools and tenants",
    variables=(_TENANTS, _POOLS),
    panels=(
        Panel(
            "GPUs that tenants keep busy",
            _SHORT,
            [("sum by (tenant) (vgpumgr:tenant_utilization:sum)", "{{tenant}}")],
        ),
        Panel(
            "Memory that tenants use",
            _BYTES,
            [("sum by (tenant) (vgpumgr:tenant_framebuffer_used_bytes:sum)", "{{tenant}}")],
        ),
        Panel(
            "GPUs held",
            _SHORT,
            [
                (
                    "sum by (tenant, class) (rate(vgpumgr_gpu_seconds_total[5m]))",
                    "{{tenant}} {{class}}",
                )
            ],
        ),
        Panel(
            "What VMs hold",
            _SHORT,
            [
                (
                    'sum by (tenant, profile) (vgpumgr_allocations{tenant=~"$tenant"})',
                    "{{tenant}} {{profile}}",
                )
            ],
            TABLE,
        ),
        Panel(
            "Busiest VMs",
            _RATIO,
            [('topk(10, vgpumgr:vgpu_utilization_ratio:owned{tenant=~"$tenant"})', _VM_NAME)],
        ),
        Panel(
            "Desktops",
            _SHORT,
            [('vgpumgr_pool_desktops{pool=~"$pool"}', "{{pool}} {{state}}")],
        ),
        Panel(
            "More desktops that could start",
            _SHORT,
            [('vgpumgr_pool_spare_startable{pool=~"$pool"}', "{{pool}}")],
        ),
        Panel(
            "Share of a GPU for a desktop",
            _RATIO,
            [
                (
                    'avg by (pool) (vgpumgr:vgpu_utilization_ratio:owned{pool=~"$pool",pool!=""})',
                    "{{pool}}",
                )
            ],
        ),
        Panel(
            "Guests with a licence",
            _RATIO,
            [("avg(vgpumgr_vgpu_licensed)", "")],
            NUMBER,
        ),
    ),
)
DASHBOARDS = (FLEET, HOST, GPU, TENANTS)


def grafana_json(dashboard: Dashboard) -> dict[str, Any]:
    """The dashboard as Grafana imports it."""
    return {
        "uid": dashboard.uid,
        "title": dashboard.title,
        "tags": ["vgpumgr"],
        "schemaVersion": SCHEMA_VERSION,
        "editable": True,
        "refresh": "15s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "templating": {"list": [_datasource(), *map(_variable, dashboard.variables)]},
        "panels": _placed(dashboard.panels),
    }


def _datasource() -> dict[str, Any]:
    return {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Source"}


def _variable(variable: tuple[str, str]) -> dict[str, Any]:
    name, query = variable
    return {
        "name": name,
        "type": "query",
        "datasource": _DATASOURCE,
        "definition": query,
        "query": {"query": query, "refId": name},
        "includeAll": True,
        "multi": True,
        "refresh": 2,
        "sort": 1,
    }


def _placed(panels: Sequence[Panel]) -> list[dict[str, Any]]:
    """From the left to the right, line by line."""
    found, x, y = [], 0, 0
    for number, panel in enumerate(panels, 1):
        if x + panel.width > _COLUMNS:
            x, y = 0, y + _HEIGHT
        place = {"x": x, "y": y, "w": panel.width, "h": _HEIGHT}
        found.append(_panel(number, panel, place))
        x += panel.width
    return found


def _panel(number: int, panel: Panel, place: dict[str, int]) -> dict[str, Any]:
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "datasource": _DATASOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
        "options": {},
        "targets": [
            _target(chr(ord("A") + index), expr, legend, panel.kind)
            for index, (expr, legend) in enumerate(panel.queries)
        ],
    }


def _target(ref: str, expr: str, legend: str, kind: str) -> dict[str, Any]:
    return {
        "refId": ref,
        "datasource": _DATASOURCE,
        "expr": expr,
        "legendFormat": legend,
        "instant": kind == TABLE,
        "range": kind != TABLE,
        **({"format": "table"} if kind == TABLE else {}),
    }
