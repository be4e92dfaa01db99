"""What the image has, laid out on this machine: the same names in one folder, with this checkout behind them."""

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pyspark

from streaming.java import find_java_home
from streaming.parts import cache_dir
from tests.k8s.programs import ROOT

HOME = "/opt/quorumscope"


class Image(NamedTuple):
    """What a kubelet must know of an image."""

    folders: Mapping[str, str]
    """Where its folders stand on this machine."""
    environment: Mapping[str, str]
    entrypoint: tuple[str, ...]


def lay_out(folder: Path) -> Image:
    """The image's own scripts, and Java, Spark, Python and jars of this machine, where those scripts look for them."""
    home = folder / "image"
    (home / "bin").mkdir(parents=True)
    (home / "venv" / "bin").mkdir(parents=True)
    source = ROOT / "helm" / "image"
    shutil.copy(source / "executor", home / "executor")
    shutil.copytree(source / "bin", home / "bin", dirs_exist_ok=True)
    for path in (home / "executor", *(home / "bin").iterdir()):
        path.write_text(path.read_text().replace(HOME, str(home)))
    # Through a script: Python finds its packages by the path that it was started with.
    python = home / "venv" / "bin" / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    # In a container it is the first process, and adopts those that others leave.
    tini = home / "bin" / "tini"
    tini.write_text('#!/bin/sh\nshift\nexec "$@"\n')
    tini.chmod(0o755)
    (home / "java").symlink_to(find_java_home())
    (home / "spark").symlink_to(Path(pyspark.__file__).parent)
    (home / "cache").symlink_to(cache_dir())
    environment = {
        "PATH": f"{home / 'bin'}:{os.environ['PATH']}",
        "LANG": "C.UTF-8",
        "HOME": str(folder),
        "JAVA_HOME": str(home / "java"),
        "SPARK_HOME": str(home / "spark"),
        "PYSPARK_PYTHON": str(python),
        "QUORUMSCOPE_CACHE": str(home / "cache"),
        "PYTHONUNBUFFERED": "1",
    }
    return Image({HOME: str(home), "/usr/bin/tini": str(tini)}, environment, (str(home / "bin" / "quorumscope"),))
