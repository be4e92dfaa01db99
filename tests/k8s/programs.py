"""Where the programs are that tools/k8stools and tools/charttools have built."""

import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
CHART = ROOT / "helm" / "quorumscope"


@cache
def _folder(tools: str) -> Path:
    script = [str(ROOT / "tools" / tools), "--path"]
    return Path(subprocess.run(script, capture_output=True, text=True, check=True).stdout.strip())


def program(name: str) -> str:
    """A program's path; the test fails with a sentence if it was not built."""
    tools = "charttools" if name == "helm" else "k8stools"
    path = _folder(tools) / name
    assert path.exists(), f"there is no {name}: run tools/{tools} first (make test-k8s does)"
    return str(path)
