"""How large the state is: rows and bytes as the job counts them, its largest blob, and what RocksDB takes for it."""

from grafana_foundation_sdk.builders.common import LineStyle
from grafana_foundation_sdk.models.dashboard import DynamicConfigValue

from dashboards.grafana.looks import limits
from dashboards.grafana.page import Section
from dashboards.grafana.panels import AnyPanel, Says, Size, graph, limited
from dashboards.grafana.queries import OF_QUERY, gauge, series

THIRD = Size(8, 9)
LIMIT = "limit"


def section() -> Section:
    return Section("State", [_rows(), _bytes(), _blob(), _share(), _memory(), _disk()])


def _rows() -> AnyPanel:
    return graph(
        Says(
            "Rows",
            "Keys and entries of the archive that the job keeps, by query.",
            "Whose they are.",
            ("StateNearLimit",),
        ),
        THIRD,
        "short",
        series(gauge("state_rows", "query", OF_QUERY), "{{query}}"),
    )


def _bytes() -> AnyPanel:
    return graph(
        Says(
            "Bytes",
            "The bytes of these rows, as the job counts them.",
            "What they take on disk, which is compressed and kept in versions.",
            ("StateNearLimit",),
        ),
        THIRD,
        "bytes",
        series(gauge("state_bytes", "query", OF_QUERY), "{{query}}"),
    )


def _blob() -> AnyPanel:
    dashes = LineStyle().fill("dash").dash([10, 10]).build()
    dashed = [DynamicConfigValue("custom.lineStyle", dashes), DynamicConfigValue("custom.fillOpacity", 0)]
    return graph(
        Says(
            "Largest blob",
            "The largest state of a single key, against what it should not exceed. A batch reads and writes it whole.",
            "Which swarm or author fills it.",
            ("StateNearLimit",),
        ),
        THIRD,
        "bytes",
        series(gauge("state_blob_bytes_max", "query", OF_QUERY), "{{query}}"),
        series(gauge("state_blob_limit_bytes", ""), LIMIT),
    ).override_by_name(LIMIT, dashed)


def _share() -> AnyPanel:
    largest = gauge("state_blob_bytes_max", "query", OF_QUERY)
    share = graph(
        Says(
            "Largest blob, of its limit",
            "The same as a share. StateNearLimit fires from 80 % on.",
            "When it gets there: it grows with the roster and with the horizon, see docs/sizing.md.",
            ("StateNearLimit",),
        ),
        THIRD,
        "percentunit",
        series(f"{largest} / on () group_left () {gauge('state_blob_limit_bytes', '')}", "{{query}}"),
    )
    return limited(share, limits(0.5, 0.8))


def _memory() -> AnyPanel:
    return graph(
        Says(
            "RocksDB memory",
            "Memory that RocksDB says it uses, by query.",
            "What the rest of the job uses: the JVM and Python's workers.",
            ("StateNearLimit",),
        ),
        THIRD,
        "bytes",
        series(gauge("state_memory_bytes", "query", OF_QUERY), "{{query}}"),
    )


def _disk() -> AnyPanel:
    return graph(
        Says(
            "RocksDB disk",
            "Bytes of RocksDB's files, by query.",
            "What the checkpoint takes, which keeps several versions.",
            ("StateNearLimit",),
        ),
        THIRD,
        "bytes",
        series(gauge("state_disk_bytes", "query", OF_QUERY), "{{query}}"),
    )
