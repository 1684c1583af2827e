"""A module that is imported when one of its functions is first called."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any


class LateModule:
    """Stands for a module of functions: a command imports only those of which it calls one."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, function: str) -> Callable[..., Any]:
        """The function, which may be named before its module is imported."""

        def call(*args: Any, **named: Any) -> Any:
            return getattr(import_module(self._name), function)(*args, **named)

        call.__name__ = call.__qualname__ = function
        return call
