"""What the trials came to, as a table: printed by each run, kept in docs/reliability.md by those that are told to."""

import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from tests.faults.faultlab import LINE, MINUTES, TITLE, Outcome

KEPT = Path(__file__).parent.parent.parent / "docs" / "reliability.md"
MARK = "<!-- The runs, the newest one first. Written by the suite: `make soak`. -->"


def table(outcomes: Sequence[Outcome]) -> list[str]:
    return [TITLE, LINE, *(outcome.row() for outcome in outcomes), _total(outcomes)]


def keep(outcomes: Sequence[Outcome]) -> None:
    """Write the table into the page, if `RELIABILITY=keep` says so."""
    if outcomes and os.environ.get("RELIABILITY") == "keep":
        form = f"{MINUTES:.0f} minutes or more" if MINUTES else "the short form"
        head = f"## {datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {form}, {platform.machine()}, {os.cpu_count()} cores"
        before, mark, after = KEPT.read_text(encoding="utf-8").partition(MARK)
        assert mark, f"{KEPT} has lost its mark"
        KEPT.write_text("\n".join([before + mark, "", head, "", *table(outcomes)]) + "\n" + after, encoding="utf-8")


def _total(outcomes: Sequence[Outcome]) -> str:
    sums = [sum(getattr(one, name) for one in outcomes) for name in ("faults", "records", "verified", "rejected")]
    sums += [sum(one.duplicate for one in outcomes), 0, sum(one.verdicts for one in outcomes), 0]
    return "| **all** | " + " | ".join(f"{count:,}" for count in sums) + " | |"
