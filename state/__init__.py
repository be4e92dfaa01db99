"""The pure core: what segments, logs and verdicts are. No Spark, no Kafka, no files, no clock, no randomness."""
