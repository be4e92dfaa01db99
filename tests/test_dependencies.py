"""What runs is what was written down: packages have the versions of constraints.txt, and there are no others; each file
that set-up installs is one of hashes.txt.
"""

import re
import subprocess
import sys
import tomllib
import zipfile
from hashlib import sha256
from importlib.metadata import distributions
from pathlib import Path

import pytest
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


def test_every_pin_has_hashes_and_nothing_else_has() -> None:
    entries = (ROOT / "hashes.txt").read_text().split("\n\n")[1:]
    found = {}
    for entry in entries:
        name, *lines = entry.strip().split(" \\\n    ")
        assert lines, entry
        assert all(re.fullmatch("--hash=sha256:[0-9a-f]{64}", line) for line in lines), entry
        match = PIN.fullmatch(name)
        assert match is not None, name
        found[plain(match["name"])] = Version(match["version"])
    assert found == pins()


@pytest.mark.parametrize(("flip", "status"), [(False, 0), (True, 1)])
def test_a_file_with_another_hash_is_not_installed(tmp_path: Path, flip: bool, status: int) -> None:
    """The command of set-up, out of its script, with a package of our own and an index that has nothing else."""
    wheel = tmp_path / "tiny-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr("tiny.py", "")
        file.writestr("tiny-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        file.writestr("tiny-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr("tiny-1.0.dist-info/RECORD", "")
    digest = sha256(wheel.read_bytes()).hexdigest()
    wanted = digest if not flip else f"{int(digest[0], 16) ^ 1:x}{digest[1:]}"
    (tmp_path / "hashes.txt").write_text(f"# about\n\ntiny==1.0 \\\n    --hash=sha256:{wanted}\n")
    script = (ROOT / "tools" / "setup").read_text()
    functions = script[script.index("install() {") : script.index("make_venv() {")]
    venv = tmp_path / "venv"
    venv.joinpath("bin").mkdir(parents=True)
    python = venv / "bin" / "python"
    python.write_text(
        f'#!/bin/sh\nexec "{sys.executable}" "$@" --no-index --find-links . --target "{tmp_path / "got"}"\n'
    )
    python.chmod(0o755)
    done = subprocess.run(
        ["/bin/sh", "-euc", f"venv={venv}\n{functions}\ninstall_known '/^tiny==/'"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    log = (venv / "pip.log").read_text()
    assert done.returncode == status, log
    assert (tmp_path / "got" / "tiny.py").exists() is not flip
    assert ("DO NOT MATCH THE HASHES" in log) is flip
