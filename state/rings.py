"""For each column, a number for each index of a moving window: so that thousands can be looked up in one step."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

NOTHING = -1


class Rings:
    """Numbers by column and index. Built at once from what there is, then kept up one by one."""

    def __init__(self, columns: Iterable[dict[int, int]]) -> None:
        """`columns` has, for each column in order, its numbers by index."""
        windows = list(columns)
        sizes = [_ring_size(max(window) - min(window) + 1) if window else 1 for window in windows]
        self._offset = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64) if sizes else np.zeros(0, np.int64)
        self._mask = np.array(sizes, np.int64) - 1
        self.base = np.array([min(window, default=1) for window in windows], np.int64)
        """The lowest index of each column that has a number."""
        self._flat = np.full(max(1, sum(sizes)), NOTHING, np.int32)
        for column, window in enumerate(windows):
            for index, number in window.items():
                self._flat[self._offset[column] + (index & self._mask[column])] = number

    def __len__(self) -> int:
        return len(self.base)

    def put(self, column: int, index: int, number: int) -> bool:
        """Add a number; False if there is no room for it: then all have to be built anew."""
        if not self.base[column] <= index <= self.base[column] + self._mask[column]:
            return False
        self._flat[self._offset[column] + (index & self._mask[column])] = number
        return True

    def drop(self, column: int, index: int) -> None:
        self._flat[self._offset[column] + (index & self._mask[column])] = NOTHING
        if index == self.base[column]:
            self.base[column] += 1

    def find(self, columns: NDArray[np.int64], indexes: NDArray[np.int64]) -> NDArray[np.int32]:
        """The numbers at these places. Requires that no index is below the base of its column or above its newest."""
        return self._flat[self._offset[columns] + (indexes & self._mask[columns])]


def _ring_size(window: int) -> int:
    """Room for twice the window, as a power of two: places are found by a mask."""
    return 1 << (2 * window).bit_length()
