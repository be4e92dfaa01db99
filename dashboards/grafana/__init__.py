"""The Grafana dashboards, as code: `python -m dashboards.grafana` writes the JSON files beside these modules.

What builds dashboards imports the SDK, which is a development dependency. `expressions` reads the JSON and needs none.
"""
