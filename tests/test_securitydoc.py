"""The page about security names a test for each thing that it says can or cannot be done; each of them exists."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "security.md"
NAMED = re.compile(r"`(test_\w+)::(test_\w+)`")
ROW = re.compile(r"^\| (?P<can>can|cannot) \|(?P<what>.*)\|(?P<shown>[^|]*)\|$")


def functions_of(module: str) -> set[str]:
    (path,) = (ROOT / "tests").rglob(f"{module}.py")
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_test_that_the_page_names_exists() -> None:
    named = NAMED.findall(PAGE.read_text(encoding="utf-8"))
    assert len(named) > 20
    assert [f"{module}::{name}" for module, name in named if name not in functions_of(module)] == []


def test_every_line_of_the_threat_model_names_a_test_or_says_that_there_is_none() -> None:
    rows = [match for line in PAGE.read_text(encoding="utf-8").splitlines() if (match := ROW.match(line))]
    assert len(rows) > 20
    bare = [row["what"].strip() for row in rows if not NAMED.search(row["shown"]) and "no test" not in row["shown"]]
    assert bare == []
    assert [row["what"].strip() for row in rows if row["can"] == "cannot" and not NAMED.search(row["shown"])] == []
