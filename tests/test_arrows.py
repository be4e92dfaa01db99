"""The arrows between packages: who may import whom, and what the pure core must not touch.

SPEC: DESIGN, layout: `state` imports none of the others; `producers`, `streaming` and `dashboards` import `state` and
not each other; only the command line knows them all.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("state", "producers", "streaming", "dashboards", "tests")
MAY_IMPORT = {
    "state": {"state"},
    "producers": {"state", "producers"},
    "streaming": {"state", "streaming"},
    "dashboards": {"state", "dashboards"},
}
COMMAND_LINE = "streaming/cli.py"

PURE_MODULES = {
    *("bisect", "collections", "datetime", "enum", "functools", "hashlib", "heapq", "itertools", "json", "math"),
    *("operator", "re", "struct", "typing", "zlib", "google.protobuf", "msgspec", "nacl.bindings", "nacl.exceptions"),
    *("numpy", "yaml", "state"),
}
"""What the core may import: none of it reads a file, a clock, the network or a source of chance by being called with
values. A new one is added here after a look at what it does."""

IMPURE_NAMES = {"open", "print", "input", "eval", "exec", "compile", "breakpoint", "__import__"}
IMPURE_NAMES |= {"hash"}  # salted anew in each process
IMPURE_ATTRIBUTES = {"now", "today", "utcnow", "random", "randombytes", "default_rng", "urandom", "getenv", "environ"}
IMPURE_ATTRIBUTES |= {"load_library", "fromfile", "tofile", "memmap", "loadtxt", "savetxt", "import_module"}


def imports(tree: ast.AST) -> Iterator[str]:
    """The full names of all that a module imports, wherever in it; of a relative import, nothing: it stays inside."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "__import__")):
            yield from (arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str))


def wrong_arrows(path: str, source: str) -> list[str]:
    """What the module at `path` imports of our own packages and must not."""
    package = path.split("/", maxsplit=1)[0]
    allowed = set(PACKAGES) - {"tests"} if path == COMMAND_LINE else MAY_IMPORT[package]
    first_names = {name.split(".")[0] for name in imports(ast.parse(source))}
    return [f"{path} imports {name}" for name in sorted(first_names & set(PACKAGES) - allowed)]


def impurities(path: str, source: str) -> list[str]:
    """What the module at `path` uses and a module of the pure core must not."""
    tree = ast.parse(source)
    found = [f"{path} imports {name}" for name in imports(tree) if not is_pure(name)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in IMPURE_NAMES:
            found.append(f"{path}:{node.lineno} uses {node.id}")
        if isinstance(node, ast.Attribute) and node.attr in IMPURE_ATTRIBUTES:
            found.append(f"{path}:{node.lineno} uses .{node.attr}")
    return found


def is_pure(name: str) -> bool:
    parts = name.split(".")
    return any(".".join(parts[: count + 1]) in PURE_MODULES for count in range(len(parts)))


def sources(package: str) -> dict[str, str]:
    paths = sorted((ROOT / package).rglob("*.py"))
    return {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in paths}


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_no_package_imports_what_it_must_not_know(package: str) -> None:
    found = sources(package)
    assert found
    assert [wrong for path, source in found.items() for wrong in wrong_arrows(path, source)] == []


def test_the_core_touches_no_files_no_clock_no_network_and_no_chance() -> None:
    found = sources("state")
    assert "state/segment.py" in found
    assert [impurity for path, source in found.items() for impurity in impurities(path, source)] == []


@pytest.mark.parametrize(
    ("path", "source", "wrong"),
    [
        ("state/x.py", "import streaming", "streaming"),
        ("state/x.py", "from producers.peer import Peer", "producers"),
        ("state/x.py", "def f():\n    from tests import loglab", "tests"),
        ("state/x.py", "if TYPE_CHECKING:\n    import dashboards.panels", "dashboards"),
        ("producers/x.py", "import state.head, streaming.broker as b", "streaming"),
        ("streaming/x.py", "from producers import peer", "producers"),
        ("streaming/x.py", "importlib.import_module('producers.peer')", "producers"),
        ("dashboards/x.py", "from streaming.topics import plans", "streaming"),
        ("streaming/cli.py", "from tests import loglab", "tests"),
    ],
)
def test_the_checker_catches_a_wrong_arrow(path: str, source: str, wrong: str) -> None:
    assert wrong_arrows(path, source) == [f"{path} imports {wrong}"]


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("state/x.py", "from state.head import Head\nimport producers_of_milk"),
        ("producers/x.py", "import state\nfrom producers.peer import Peer\nfrom . import peer"),
        ("streaming/cli.py", "import state, producers.peer, dashboards, streaming.broker"),
    ],
)
def test_the_checker_lets_right_arrows_be(path: str, source: str) -> None:
    assert wrong_arrows(path, source) == []


@pytest.mark.parametrize(
    "source",
    [
        *("import os", "import io", "import time", "import random", "import secrets", "import socket", "import uuid"),
        *("import subprocess", "import pathlib", "from pathlib import Path", "import pyspark.sql", "import pyarrow"),
        *("import confluent_kafka", "import kafka", "import threading", "import logging", "import nacl.utils"),
        *("from nacl.signing import SigningKey", "def f():\n    import os.path", "from nacl import utils"),
        *("text = open('x').read()", "datetime.now(UTC)", "datetime.datetime.utcnow()", "date.today()"),
        *("numpy.random.random()", "nacl.bindings.randombytes(3)", "hash(key) % 16", "print(1)", "now = datetime.now"),
        "reader = open\nreader('x')",
    ],
)
def test_the_checker_catches_what_is_not_pure(source: str) -> None:
    assert impurities("state/x.py", source)


def test_the_checker_lets_pure_code_be() -> None:
    source = "from datetime import UTC, datetime\nimport numpy\nfrom google.protobuf.message import DecodeError\n"
    assert impurities("state/x.py", source + "def f(time: datetime) -> int:\n    return time.timestamp()") == []
