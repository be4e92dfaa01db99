"""How much of a long random search is done when: a part by `make check`, some by `make test`, all by `make soak`."""

import pytest

IN_TEST = 5
"""Parts that `make test` searches; a part takes some seconds."""


def parts(count: int) -> list[object]:
    """The parts of a search, to be given to `parametrize`."""
    marks = [pytest.mark.slow if part < IN_TEST else pytest.mark.long for part in range(1, count)]
    return [0, *(pytest.param(part, marks=mark) for part, mark in enumerate(marks, start=1))]
