"""The names of our alerts, read from the rules themselves, so that no list here can be out of date."""

from pathlib import Path

import yaml

RULES = Path(__file__).parent.parent / "alerts" / "quorumscope.yaml"

WATCHDOG = "QuorumscopeWatchdog"
"""The alert that always fires, so that its absence tells that alerting is dead. It is no trouble."""


def alert_names(path: Path = RULES) -> tuple[str, ...]:
    """The alerts of a rule file, each once, in order of the alphabet. An alert may have several rules."""
    groups = yaml.safe_load(path.read_text(encoding="utf-8"))["groups"]
    return tuple(sorted({rule["alert"] for group in groups for rule in group["rules"] if "alert" in rule}))


ALERTS = alert_names()

TROUBLE = tuple(name for name in ALERTS if name != WATCHDOG)
"""The alerts that somebody should look at when they fire."""
