"""How far the reading of a long topic is: a bar on a terminal, a line now and then elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer

LINE_SECONDS = 5.0
"""How often reading a long topic says how far it is, where there is no terminal."""

OnProgress = Callable[[int, int], None]
"""Told now and then how many records are read, and of how many."""


@contextmanager
def reading_progress(what: str, done: str = "records read") -> Iterator[OnProgress]:
    """Shows what it is told on standard error, so that output can be kept; `done` says in words what is counted."""
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import Progress

        with Progress(console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(what, total=None)
            yield lambda read, total: bar.update(task, completed=read, total=total)
        return
    told = time.monotonic()

    def tell(read: int, total: int) -> None:
        nonlocal told
        if time.monotonic() - told > LINE_SECONDS:
            told = time.monotonic()
            typer.echo(f"{read:,} of {total:,} {done}", err=True)

    yield tell
