"""Files of documents of one kind, which no other file may hold: calendars, prices, and others."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, get_args

from pydantic import ValidationError

from vgpumgr.model.power import PowerBudget
from vgpumgr.spec.fields import Strict
from vgpumgr.spec.load import decoded
from vgpumgr.spec.power_document import PowerBudgetModel
from vgpumgr.spec.spec_file import START, SpecFindings, trees
from vgpumgr.spec.validation_messages import report

Model = TypeVar("Model", bound=Strict)
Value = TypeVar("Value")


def load_documents(
    data: bytes | str,
    source: str,
    model: type[Model],
    value: Callable[[Model], Value],
    key: Callable[[Value], object],
    *,
    at: str = "name",
    again: str = "another document has that name",
) -> tuple[Value, ...]:
    """The values of a file's documents, in its order; ``source`` is its name in messages. SpecError
    with every problem found: ``again`` where another has the same ``key``, which they write ``at``.
    """
    findings = SpecFindings(source)
    text = decoded(data, findings)
    findings.raise_if_any()
    found: dict[object, Value] = {}
    for tree in trees(text, findings):
        try:
            made = value(model.model_validate(tree.data))
        except ValidationError as error:
            report(error.errors(include_url=False), model, tree, frozenset(), findings)
            continue
        if key(made) in found:
            findings.add(tree.value_mark((at,)), again, (at,))
        found[key(made)] = made
    if not (found or findings.found):
        [kind] = get_args(model.model_fields["kind"].annotation)
        findings.add(START, f"no document with kind: {kind}")
    findings.raise_if_any()
    return tuple(found.values())


def load_budgets(data: bytes | str, source: str) -> tuple[PowerBudget, ...]:
    """The power budgets of a file that has nothing else. SpecError with every problem found."""
    model = PowerBudgetModel
    return load_documents(data, source, model, model.value, lambda it: it.name)
