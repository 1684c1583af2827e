"""The processes that runs are shared out to."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor


def processes(count: int) -> ProcessPoolExecutor:
    """That many fresh ones."""
    return ProcessPoolExecutor(count, mp_context=multiprocessing.get_context("spawn"))
