"""The folds there are, by name. A new one needs a line here, and no new Spark code."""

from state.clocks import ClocksFold
from state.columns import ColumnsFold
from state.config import Config
from state.fold import Fold, FoldFactory
from state.logs import LogsFold
from state.rejected import RejectedFold
from state.splits import SplitsFold

FOLDS: dict[str, FoldFactory] = {
    "rejected": RejectedFold,
    "logs": LogsFold,
    "columns": ColumnsFold,
    "clocks": ClocksFold,
    "splits": SplitsFold,
}


def make_folds(names: tuple[str, ...], config: Config) -> dict[str, Fold]:
    return {name: FOLDS[name](config) for name in names}
