"""What commands that run for long do at a terminal: say what goes on, and end in order when they are told to."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import typer


def say(text: str) -> None:
    typer.echo(f"{datetime.now(UTC):%H:%M:%S} {text}")


@contextmanager
def stopped_by_signal() -> Iterator[threading.Event]:
    """An event that Ctrl-C and SIGTERM set, so that work ends in order; a second Ctrl-C ends it at once."""
    stopped = threading.Event()

    def stop(number: int, _frame: object) -> None:
        stopped.set()
        signal.signal(number, signal.default_int_handler)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
