"""Reports of ticks: what is written is read back, and what does not fit together is refused."""

import msgspec
import numpy as np
import pytest

from state.report import Cells, Node, Report, decode_report, encode_report, pack_cells, unpack_cells

NODES = [Node(bytes([n]) * 32, b"", n, 1000 + n, 900) for n in range(3)]


def cells(columns: int) -> Cells:
    chance = np.random.default_rng(columns)
    lags, ages, contacts = (chance.integers(0, 256, (columns, 3)).astype(np.uint8) for _ in range(3))
    return Cells(chance.integers(0, 2, (columns, 3)).astype(bool), lags, ages, contacts)


def report(columns: list[int]) -> Report:
    packed = pack_cells(cells(len(columns)))
    return Report(b"s" * 32, 0, 2, 5000, 4000, NODES, columns, *packed, [7] * len(columns), [(b"w" * 32, [1])])


@pytest.mark.parametrize("columns", [[], [1], [0, 2], [0, 1, 2]])
def test_a_report_is_read_back_as_it_was_written(columns: list[int]) -> None:
    read = decode_report(encode_report(report(columns)))
    assert read == report(columns)
    for got, want in zip(unpack_cells(read), cells(len(columns)), strict=True):
        assert np.array_equal(got, want)


@pytest.mark.parametrize(
    "wrong",
    [
        {"block": 2},
        {"blocks": 0},
        {"columns": [2, 0]},
        {"columns": [0, 3]},
        {"columns": [-1, 2]},
        {"columns": [0]},
        {"intervals_ms": [7]},
        {"withheld": [(b"w" * 32, [3])]},
        {"lags": b""},
        {"ages": b"not compressed"},
        {"contacts": pack_cells(cells(3))[1]},
        {"fresh": pack_cells(cells(2))[0][:-1]},
        {"fresh": pack_cells(cells(2))[1]},
    ],
)
def test_parts_that_do_not_fit_each_other_are_refused(wrong: dict[str, object]) -> None:
    encoded = encode_report(msgspec.structs.replace(report([0, 2]), **wrong))
    with pytest.raises(msgspec.DecodeError):
        decode_report(encoded)
