"""Arrays that grow ahead of need."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

_Scalar = TypeVar("_Scalar", bound=np.generic)


def grown(array: NDArray[_Scalar], shape: tuple[int, ...], fill: float = 0) -> NDArray[_Scalar]:
    """``array`` itself where it has the shape's room, else a larger copy."""
    if all(has >= need for has, need in zip(array.shape, shape, strict=True)):
        return array
    wider = tuple(
        has if has >= need else max(need, has + has // 4 + 8)
        for has, need in zip(array.shape, shape, strict=True)
    )
    larger = np.full(wider, fill, array.dtype)
    larger[tuple(slice(0, has) for has in array.shape)] = array
    return larger
