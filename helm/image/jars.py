#!/usr/bin/env python3
"""Fetches the jars of Spark's Kafka connector as set-up does, checked against the lock; not the embedded broker's."""

from pathlib import Path
from xml.etree import ElementTree as ET

from streaming import jars

GROUP = "spark"


def main() -> None:
    lock = {name: digest for name, digest in jars.read_lock().items() if name.startswith(f"{GROUP}/")}
    wanted = ET.parse(jars.IVY_FILE)  # noqa: S314  our own file
    dependencies = wanted.getroot().find("dependencies")
    assert dependencies is not None
    for dependency in list(dependencies):
        if not dependency.get("conf", "").startswith(f"{GROUP}->"):
            dependencies.remove(dependency)
    jars.IVY_FILE = Path("/tmp/jars.xml")  # noqa: S108  in a container of its own
    wanted.write(jars.IVY_FILE)
    with jars._retrieved() as fresh:  # noqa: SLF001
        jars.verify(fresh, lock)
        jars._publish(fresh, jars._folder(), lock)  # noqa: SLF001


if __name__ == "__main__":
    main()
