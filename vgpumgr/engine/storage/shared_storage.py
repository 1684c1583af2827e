"""Which pools of two hosts are one storage: by what lies behind them, never by their names."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from vgpumgr.model.host import HostFacts, StoragePool

SHARED_KINDS = frozenset(
    {"gluster", "iscsi", "iscsi-direct", "netfs", "rbd", "sheepdog", "vstorage"}
)
"""Pools that several hosts can have at once, as libvirt names their kinds."""
# On every host they mean that host.
_HERE = ("localhost", "127.", "[::1]", "::1", "0.0.0.0", "ip6-localhost")  # noqa: S104


def is_one_storage(here: StoragePool, there: StoragePool) -> bool:
    """Do both show the same volumes? Both must name the same place on the same servers: what is
    the same under another name counts as another storage, of which nothing is taken for granted.
    """
    source = here.source
    return (
        here.kind in SHARED_KINDS
        and here.kind == there.kind
        and source.name != ""
        and source.name == there.source.name
        and set(source.hosts) == set(there.source.hosts)
        and not any(each.startswith(_HERE) for each in source.hosts)
    )


def shared_pools(here: HostFacts | None, there: HostFacts | None) -> frozenset[str]:
    """The names of the pools that are one storage on both hosts, and active there."""
    others = {pool.name: pool for pool in _active(there)}
    return frozenset(
        pool.name
        for pool in _active(here)
        if pool.name in others and is_one_storage(pool, others[pool.name])
    )


def may_be_shared(facts: HostFacts, pools: Collection[str]) -> frozenset[str]:
    """Those of the pools that another host may have, too."""
    return frozenset(
        each.name for each in _active(facts) if each.name in pools and each.kind in SHARED_KINDS
    )


def _active(facts: HostFacts | None) -> Iterable[StoragePool]:
    return (pool for pool in (facts.pools if facts else ()) if pool.active)
