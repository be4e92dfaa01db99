#!/usr/bin/env python3
"""Installs what the project needs to run, and nothing else, into an environment that has no pip.

    TOOLS/bin/python packages.py PROJECT ENVIRONMENT

`hashes.txt` holds the pins of all packages, also of those that only tests need. So the dependencies of `pyproject.toml`
are installed from it, then what those turn out to ask for, until nothing is missing. A file without a known hash is
refused, and a package without an entry too.
"""

import subprocess
import sys
import tomllib
from importlib.metadata import Distribution, distributions
from pathlib import Path

from pip._vendor.packaging.requirements import Requirement
from pip._vendor.packaging.utils import canonicalize_name

PIP = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
INTO = ["--no-build-isolation", "--no-compile", "--ignore-installed", "--prefix"]
BUILD_TOOL = "setuptools"


def entries(hashes: Path) -> dict[str, str]:
    """Name of a package to its pin with all its hashes, as pip reads it."""
    blocks = [block for block in hashes.read_text(encoding="utf-8").split("\n\n") if "==" in block.partition("\n")[0]]
    return {canonicalize_name(block.partition("==")[0].strip()): block for block in blocks}


def names(requirements: list[str]) -> set[str]:
    """Of those that hold on this machine, without extras."""
    parsed = [Requirement(text) for text in requirements]
    return {canonicalize_name(one.name) for one in parsed if not one.marker or one.marker.evaluate({"extra": ""})}


def missing(wanted: set[str], site: Path) -> set[str]:
    """What is wanted, or asked for by a package that is there, and is not there."""
    there: dict[str, Distribution] = {canonicalize_name(one.name): one for one in distributions(path=[str(site)])}
    return (wanted | {name for one in there.values() for name in names(one.requires or [])}) - there.keys()


def install(found: dict[str, str], wanted: set[str], *options: str) -> None:
    unknown = sorted(wanted - found.keys())
    if unknown:
        sys.exit(f"hashes.txt has no entry for {', '.join(unknown)}: write it anew with tools/hashes.")
    chosen = Path("/tmp/requirements.txt")  # noqa: S108  in a container of its own
    chosen.write_text("\n\n".join(found[name] for name in sorted(wanted)), encoding="utf-8")
    subprocess.run([*PIP, "--require-hashes", *options, "-r", str(chosen)], check=True)  # noqa: S603  our own command


def main() -> None:
    project, environment = Path(sys.argv[1]), Path(sys.argv[2])
    (site,) = environment.glob("lib/python3*/site-packages")
    found = entries(project / "hashes.txt")
    wanted = names(tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"])
    install(found, {BUILD_TOOL})
    while lacking := missing(wanted, site):
        print("installing", *sorted(lacking), flush=True)  # noqa: T201
        install(found, lacking, *INTO, str(environment))


if __name__ == "__main__":
    main()
