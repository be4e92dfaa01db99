"""What runs is what was written down: packages have the versions of constraints.txt, and there are no others."""

import re
import tomllib
from importlib.metadata import distributions
from pathlib import Path

from packaging.version import Version

ROOT = Path(__file__).parents[1]
PIN = re.compile(r"(?P<name>[A-Za-z0-9._-]+)==(?P<version>[A-Za-z0-9.!+_-]+)")

NOT_PINNED = {"pip", "quorumscope"}
"""What installs the others, which comes with Python, and ourselves."""


def plain(name: str) -> str:
    """A name as the package index compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pins() -> dict[str, Version]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    found = {}
    for line in lines:
        if line.startswith("#"):
            continue
        match = PIN.fullmatch(line)
        assert match is not None, f"want NAME==VERSION, got {line!r}"
        assert plain(match["name"]) not in found, line
        found[plain(match["name"])] = Version(match["version"])
    return found


def test_every_installed_package_has_its_pinned_version_and_nothing_else_is_installed() -> None:
    kept = pins()
    installed = {plain(one.metadata["Name"]): Version(one.version) for one in distributions()}
    others = installed.items() - kept.items()
    assert {f"{name}=={version}" for name, version in others if name not in NOT_PINNED} == set()


def test_everything_that_we_ask_for_is_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = [*project["dependencies"], *(one for extra in project["optional-dependencies"].values() for one in extra)]
    names = {plain(re.split(r"[^A-Za-z0-9._-]", one)[0]) for one in asked}
    assert names - pins().keys() == set()
