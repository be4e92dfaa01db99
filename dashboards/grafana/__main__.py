"""Writes the dashboards as JSON files beside these modules: `python -m dashboards.grafana`."""

from pathlib import Path

from dashboards.grafana import acceptance, forks, overview, pipeline
from dashboards.grafana.page import Page

FOLDER = Path(__file__).parent


def pages() -> list[Page]:
    """All dashboards, in the order in which they are read."""
    return [overview.page(), acceptance.page(), forks.page(), pipeline.page()]


def main() -> None:
    for page in pages():
        (FOLDER / f"{page.file}.json").write_text(page.text(), encoding="utf-8")


if __name__ == "__main__":
    main()
