"""Spark and what surrounds it: ingest, the fold host, the queries, the embedded broker, the command line."""
