"""The parts that set-up fetches (a Java runtime, jars): where they are kept, and the error when one is missing."""

import os
import sys
from pathlib import Path


class MissingPartError(Exception):
    """A part that must be on this machine is not; the message is one sentence that says what to do next."""


def cache_dir() -> Path:
    """The folder for what is fetched once and used by every checkout; the callers create what they need in it."""
    chosen = os.environ.get("QUORUMSCOPE_CACHE")
    if chosen:
        return Path(chosen).absolute()
    shared = os.environ.get("XDG_CACHE_HOME")
    if shared:
        return Path(shared).absolute() / "quorumscope"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "quorumscope"
    return Path.home() / ".cache" / "quorumscope"
