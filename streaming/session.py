"""The Spark session: jars, settings that the queries rely on, and a log that does not drown the terminal."""

import logging
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from streaming.jars import spark_jars
from streaming.java import find_java_home

SETTINGS = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    # A batch uploads what it changed, not a snapshot of everything.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # Counting rows costs a read before each write; the folds count what matters themselves.
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
    # Events come packed, many to a row; small batches let Python verify while the JVM still reads.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "200",
    # Records go to Python and back through sockets of the file system, which cost fewer copies than TCP.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.streaming.kafka.useDeprecatedOffsetFetching": "false",
    # The heap holds little that lives long; the collector with the least work for throughput serves best.
    "spark.driver.defaultJavaOptions": "-XX:+UseParallelGC",
    "spark.executor.defaultJavaOptions": "-XX:+UseParallelGC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "2g",
    "spark.log.level": "ERROR",
    # Spark hides what these match, by name or by value, in its pages, event logs and plans; its own default knows
    # passwords, and not the keys of certificates.
    "spark.redaction.regex": "(?i)secret|password|token|access[.]?key|jaas|keystore|ssl[.]key|private key",
}
_LOCAL_SETTINGS = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


def start_session(
    master: str, shuffle_partitions: int, extra: Mapping[str, str] | None = None, log: Path | None = None
) -> Any:
    """A Spark session; `extra` overrides any setting. Raises MissingPartError if Java or the jars are missing.

    What the JVM and its Python workers write to standard error goes to `log`, if it is given.
    """
    # Java first: a clear sentence is worth more than Spark's own.
    os.environ["JAVA_HOME"] = str(find_java_home())
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    jars = spark_jars()

    from pyspark.sql import SparkSession

    settings = {
        **SETTINGS,
        **(_LOCAL_SETTINGS if master.startswith("local") else {}),
        "spark.jars": ",".join(map(str, jars)),
        "spark.sql.shuffle.partitions": str(shuffle_partitions),
        **(extra or {}),
    }
    builder = SparkSession.builder.master(master).appName("quorumscope")
    for name, value in settings.items():
        builder = builder.config(name, value)
    with _standard_error_to(log):
        session = builder.getOrCreate()
    # It prints a traceback when the JVM closes the line, which is how it learns that the JVM has ended.
    session.sparkContext._accumulatorServer.handle_error = lambda *_: None  # noqa: SLF001
    if master.startswith("local[") or master == "local":
        _end_with_lost_threads(session)
    return session


def outlive_lost_threads(session: Any) -> None:
    """Undo it for an end in order: a query that is stopped in mid batch interrupts Spark's server of a task's state."""
    session.sparkContext._jvm.java.lang.Thread.setDefaultUncaughtExceptionHandler(None)  # noqa: SLF001


@contextmanager
def _standard_error_to(log: Path | None) -> Iterator[None]:
    """Processes started meanwhile have `log` as their standard error; ours is as before afterwards."""
    if log is None:
        yield
        return
    sys.stderr.flush()
    ours = os.dup(2)
    theirs = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.dup2(theirs, 2)
        yield
    finally:
        os.dup2(ours, 2)
        os.close(ours)
        os.close(theirs)


@contextmanager
def complaints_to(log: Path) -> Iterator[None]:
    """What libraries complain of in this process goes to `log`; people are told a sentence."""
    handler = _PatientHandler(log, delay=True)
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)
        handler.close()


class _PatientHandler(logging.FileHandler):
    """Says nothing of a log that cannot be written: a full disk is told by what needs it more."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  the library's name
        del record


def _end_with_lost_threads(session: Any) -> None:
    """Let the JVM end when one of its threads ends by an error that nobody catches, as Spark's executors do.

    Spark's server of a task's state ends so when the disk is full, and the task would wait for its answer for ever.
    """
    jvm = session.sparkContext._jvm  # noqa: SLF001
    handler = jvm.org.apache.spark.util.SparkUncaughtExceptionHandler(True)
    jvm.java.lang.Thread.setDefaultUncaughtExceptionHandler(handler)


def jvm_pid(session: Any) -> int:
    """The process id of the JVM, which can outlive a killed Python by some seconds."""
    return int(session.sparkContext._jvm.java.lang.ProcessHandle.current().pid())  # noqa: SLF001


@contextmanager
def own_workers(session: Any, name: str) -> Iterator[None]:
    """Functions that are made in here run in Python workers of their own, named by an environment variable.

    Spark hands out idle workers in turn. A key's machine stays unpacked in the worker that had it; with the tasks of
    other stages in between, another worker would get the key and have to unpack it anew.
    """
    environment = session.sparkContext.environment
    environment["QUORUMSCOPE_WORKERS"] = name
    try:
        yield
    finally:
        del environment["QUORUMSCOPE_WORKERS"]
