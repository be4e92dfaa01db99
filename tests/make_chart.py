"""Writes what the chart has from elsewhere: `python -m tests.make_chart`. A test proves that all of it is current.

Helm reads no file outside of its chart, so the dashboards, the alert rules and the canary's swarms stand in it a second
time. The schema of the values takes its descriptions from the comments in values.yaml, and README.md is made of them by
helm-docs, where tools/charttools has it.
"""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from producers.canary import SETS, canary_swarm
from producers.swarmfile import config_yaml
from state.config import Config

ROOT = Path(__file__).parent.parent
CHART = ROOT / "helm" / "quorumscope"

_COMMENT = re.compile(r" *# (-- )?(.*)")
_KEY = re.compile(r"( *)([A-Za-z]+):")


def copies() -> dict[Path, str]:
    """The files of the chart that stand elsewhere too, with the text that each must have."""
    files = CHART / "files"
    dashboards = sorted((ROOT / "dashboards" / "grafana").glob("*.json"))
    return {
        **{files / "dashboards" / path.name: path.read_text(encoding="utf-8") for path in dashboards},
        files / "alerts.yaml": (ROOT / "dashboards" / "alerts" / "quorumscope.yaml").read_text(encoding="utf-8"),
        **{files / f"canary-{number}.yaml": canary_entry(number) for number in range(1, SETS + 1)},
    }


def canary_entry(number: int) -> str:
    """What `quorumscope swarm canary --keys NUMBER` prints."""
    return config_yaml(Config((canary_swarm(number),))).partition("\n")[2]


def comments() -> Iterator[tuple[tuple[str, ...], str]]:
    """Each value of values.yaml that has a comment: its path, and the comment as one line."""
    path: list[str] = []
    said: list[str] = []
    for line in (CHART / "values.yaml").read_text(encoding="utf-8").splitlines():
        comment, key = _COMMENT.fullmatch(line), _KEY.match(line)
        if comment:
            said = [comment[2]] if comment[1] else [*said, comment[2]] if said else []
        elif key:
            del path[len(key[1]) // 2 :]
            path.append(key[2])
            if said:
                yield tuple(path), " ".join(said)
            said = []
        else:
            said = []


def current_schema() -> str:
    """The schema of the values, each with its comment as description."""
    schema: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    for path, text in comments():
        node = schema
        for name in path:
            node = node["properties"][name]
        node["description"] = text
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def helm_docs(*arguments: str) -> subprocess.CompletedProcess[str]:
    folder = subprocess.run([ROOT / "tools" / "charttools", "--path"], check=True, capture_output=True, text=True)
    command = [
        f"{folder.stdout.strip()}/helm-docs",
        "--chart-search-root",
        str(CHART),
        "--sort-values-order",
        "file",
        *arguments,
    ]
    return subprocess.run(command, check=True, capture_output=True, text=True)


if __name__ == "__main__":
    for file, text in copies().items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    (CHART / "values.schema.json").write_text(current_schema(), encoding="utf-8")
    helm_docs()
