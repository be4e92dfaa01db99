#!/usr/bin/env python3
"""Takes out of the installed packages what the monitor never loads: half of their size.

    trim.py SITE_PACKAGES

Each group has its reason. tests/test_image.py runs what is left: the job, its state, the exporter, an executor.
"""

import platform
import shutil
import sys
import zipfile
from pathlib import Path

ROCKSDB_OF = {"x86_64": "linux64.so", "aarch64": "linux-aarch64.so"}
"""How the state store's library for a processor is named in its jar."""

NETTY_OF = {"x86_64": "x86_64", "aarch64": "aarch_64"}

JARS = {
    "Spark Connect, its shell and Spark's own: the session is in the same process": [
        "spark-connect_*", "connect-repl", "spark-pipelines_*", "spark-repl_*", "scala-compiler-*", "jline-*",
    ],
    "machine learning and graphs": [
        "spark-mllib_*", "spark-graphx_*", "breeze*", "spire*", "cats-kernel_*", "algebra_*", "arpack*", "lapack-*",
        "blas-*", "JTransforms-*", "JLargeArrays-*",
    ],
    "Hive, its metastore and its server; not hive-storage-api, which ORC's source is made with": [
        "spark-hive*", "hive-beeline-*", "hive-cli-*", "hive-common-*", "hive-exec-*", "hive-jdbc-*",
        "hive-metastore-*", "hive-serde-*", "hive-service-rpc-*", "hive-shims*", "derby*", "datanucleus-*",
        "HikariCP-*", "javax.jdo-*", "jdo-api-*", "jta-*", "transaction-api-*", "libthrift-*", "libfb303-*",
    ],
    "Hadoop's cluster manager": ["spark-yarn_*"],
    "libraries for other systems": ["netty-*-osx-*", "netty-*-windows-*"],
}  # fmt: skip

FOLDERS = {
    "tests, examples and headers": [
        "*/tests", "*/*/tests", "pyspark/examples", "pyarrow/include", "numpy/_core/include",
    ],
    "Arrow over the network and in S3": [
        "pyarrow/*flight*", "pyarrow/libarrow_s3*", "pyarrow/_s3fs*",
    ],
}  # fmt: skip


def remove(folder: Path, patterns: list[str]) -> None:
    for pattern in patterns:
        found = list(folder.glob(pattern))
        if not found:
            sys.exit(f"{folder} has nothing like {pattern}: see whether the list in trim.py still fits.")
        for path in found:
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def remove_other_processors(jars: Path) -> None:
    """Netty has one jar for each; the state store one for all, which is written anew with one library of fourteen."""
    mine = NETTY_OF[platform.machine()]
    for path in jars.glob("netty-*-linux-*.jar"):
        if not path.stem.endswith(f"-linux-{mine}"):
            path.unlink()
    (rocksdb,) = jars.glob("rocksdbjni-*.jar")
    smaller = rocksdb.with_suffix(".smaller")
    wanted = f"librocksdbjni-{ROCKSDB_OF[platform.machine()]}"
    with zipfile.ZipFile(rocksdb) as old, zipfile.ZipFile(smaller, "w", zipfile.ZIP_DEFLATED) as new:
        for entry in old.infolist():
            if not entry.filename.startswith("librocksdbjni-") or entry.filename == wanted:
                new.writestr(entry, old.read(entry))
    smaller.replace(rocksdb)


def size_mb(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if not path.is_symlink()) // 1_000_000


def main() -> None:
    site = Path(sys.argv[1])
    jars = site / "pyspark" / "jars"
    before = size_mb(site), size_mb(jars)
    for patterns in JARS.values():
        remove(jars, patterns)
    for patterns in FOLDERS.values():
        remove(site, patterns)
    remove_other_processors(jars)
    print(f"packages: {before[0]} MB, now {size_mb(site)} MB; jars of Spark: {before[1]} MB, now {size_mb(jars)} MB")  # noqa: T201


if __name__ == "__main__":
    main()
