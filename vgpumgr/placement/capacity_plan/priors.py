"""What a history says of requests that it does not hold: for models of GPUs that few ask for.

A sample knows how many requests name a set of models, but hardly in which sizes: much of what names
a rare model comes in a size that the sample does not have with it, and a plan would keep nothing
for it. How much that is says what was seen once (Good and Turing); the sizes are those of all
requests. Models of the fleet that no request has named get a share likewise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from vgpumgr.model.supply import Fleet
from vgpumgr.placement.capacity_plan.quota_plan import GroupKey, RequestGroup, group_key
from vgpumgr.placement.resources.demand import Demand

FEW = 0.1
"""The share of all requests up to which those that name a set of models are few."""

MOST_SIZES = 4
"""Sizes in which unseen requests are expected: the commonest."""

SURE = 2.0
"""Standard deviations kept on top of what is expected: few requests say little, and those that name
no model can go elsewhere."""

Models = tuple[str, ...]


def with_priors(groups: Sequence[RequestGroup], fleet: Fleet) -> tuple[RequestGroup, ...]:
    """The groups, with more of those that name a set of models which few name, seen or not.

    As they are where no request names a model.
    """
    named = _by_models(groups)
    if not named:
        return tuple(groups)
    found = {group.key: group for group in groups}
    sizes, most = _sizes(groups), FEW * sum(group.count for group in groups)
    for models, members in named.items():
        seen = sum(group.count for group in members)
        if seen > most:
            continue
        once = sum(group.count == 1 for group in members)
        kept = (seen + SURE * seen**0.5) / (seen + once)
        for group in members:
            found[group.key] = replace(group, count=group.count * kept)
        _add(found, sizes, models, once * kept)
    once = sum(sum(group.count for group in members) == 1 for members in named.values())
    unnamed = [(model,) for model in _models(fleet) if (model.casefold(),) not in named]
    for models in unnamed:
        _add(found, sizes, models, once / len(unnamed))
    return tuple(sorted(found.values(), key=lambda group: -group.count))


def _by_models(groups: Iterable[RequestGroup]) -> dict[Models, list[RequestGroup]]:
    """Groups of one kind of part that name models, by the set."""
    named: dict[Models, list[RequestGroup]] = {}
    for group in groups:
        if len(group.demand.kinds) == 1 and group.demand.kinds[0].models:
            named.setdefault(group.demand.kinds[0].key[1], []).append(group)
    return named


@dataclass(frozen=True, slots=True)
class _Size:
    """A request without its models, and what share of requests comes in it."""

    group: RequestGroup
    share: float


def _sizes(groups: Iterable[RequestGroup]) -> list[_Size]:
    counts: Counter[GroupKey] = Counter()
    example: dict[GroupKey, RequestGroup] = {}
    for group in groups:
        if len(group.demand.kinds) == 1:
            key = group_key(_naming(group.demand, ()))
            counts[key] += int(group.count)
            example.setdefault(key, group)
    common = counts.most_common(MOST_SIZES)
    total = sum(count for _, count in common)
    return [_Size(example[key], count / total) for key, count in common]


def _add(
    found: dict[GroupKey, RequestGroup], sizes: Sequence[_Size], models: Models, count: float
) -> None:
    """So many more requests for these models, in all sizes."""
    for size in sizes if count else ():
        demand = _naming(size.group.demand, models)
        key = group_key(demand)
        known = found.get(key) or RequestGroup(key, demand, 0, size.group.memory_mib)
        found[key] = replace(known, count=known.count + count * size.share)


def _naming(demand: Demand, models: Models) -> Demand:
    (kind,) = demand.kinds
    profile, _, memory_mib, framework = kind.key
    key = profile, tuple(sorted({model.casefold() for model in models})), memory_mib, framework
    return replace(demand, kinds=(replace(kind, models=models, key=key),))


def _models(fleet: Fleet) -> Mapping[str, None]:
    return dict.fromkeys(gpu.model for host in fleet.hosts for gpu in host.gpus)
