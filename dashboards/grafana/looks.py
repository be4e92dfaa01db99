"""Colours and words for values: thresholds, and mappings from numbers to what they mean.

Red is for what must be looked at now, orange for what may become that. In tables what is well has no colour, so that
the rest stands out.
"""

from collections.abc import Mapping

from grafana_foundation_sdk.builders.dashboard import FieldColor, ThresholdsConfig
from grafana_foundation_sdk.models.dashboard import (
    DashboardRangeMapOptions,
    DashboardSpecialValueMapOptions,
    FieldColorModeId,
    RangeMap,
    SpecialValueMap,
    SpecialValueMatch,
    Threshold,
    ThresholdsMode,
    ValueMap,
    ValueMapping,
    ValueMappingResult,
)

WELL = "green"
SOON = "orange"
NOW = "red"
QUIET = "transparent"
UNKNOWN = "#808080"

Steps = tuple[tuple[float | None, str], ...]
"""Colours from a value on; the first from minus infinity, which is None."""

PLAIN: Steps = ((None, "blue"),)
NONE_IS_WELL: Steps = ((None, WELL), (1, NOW))
SOME_ARE_WELL: Steps = ((None, NOW), (1, WELL))
SOME_MAY_MATTER: Steps = ((None, WELL), (1, SOON))
QUIET_UNLESS_ANY: Steps = ((None, QUIET), (1, NOW))
QUIET_UNLESS_SOME: Steps = ((None, QUIET), (1, SOON))


def limits(soon: float, now: float, well: str = WELL) -> Steps:
    """Well below `soon`, orange from there, red from `now`."""
    return ((None, well), (soon, SOON), (now, NOW))


def thresholds(steps: Steps) -> ThresholdsConfig:
    found = [Threshold(value=at, color=color) for at, color in steps]
    return ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(found)


def by_thresholds() -> FieldColor:
    """Values have the colours of their thresholds, as lines those of a palette: said, because defaults differ."""
    return FieldColor().mode(FieldColorModeId.THRESHOLDS)


def by_palette() -> FieldColor:
    return FieldColor().mode(FieldColorModeId.PALETTE_CLASSIC)


def meanings(words: Mapping[str, tuple[str, str]]) -> ValueMap:
    """The text and the colour of each value."""
    return ValueMap(
        options={
            key: ValueMappingResult(text=text, color=color, index=position)
            for position, (key, (text, color)) in enumerate(words.items())
        }
    )


def from_value_on(lowest: float, text: str, color: str) -> RangeMap:
    result = ValueMappingResult(text=text, color=color)
    return RangeMap(options=DashboardRangeMapOptions(from_val=lowest, to=None, result=result))


def without_value(text: str, color: str | None = None) -> SpecialValueMap:
    """What stands for a value that is not there, or for a quotient of nothing."""
    return SpecialValueMap(
        options=DashboardSpecialValueMapOptions(
            match=SpecialValueMatch.NULL_AND_NAN, result=ValueMappingResult(text=text, color=color)
        )
    )


NO_DATA = without_value("no data", UNKNOWN)
"""No data must not look well."""

PEER_STATES: list[ValueMapping] = [
    meanings(
        {
            "-1": ("silent", UNKNOWN),
            "0": ("on no side", SOON),
            "1": ("main side", WELL),
            "2": ("side 2", NOW),
            "3": ("side 3", "purple"),
        }
    ),
    from_value_on(4, "a further side", "dark-purple"),
]
"""What a peer is at a tick: see `timelines.peers`."""

SWARM_STATES: list[ValueMapping] = [
    meanings(
        {
            "0": ("undecidable", UNKNOWN),
            "1": ("one side", WELL),
            "2": ("2 sides", NOW),
            "3": ("3 sides", "purple"),
        }
    ),
    from_value_on(4, "more sides", "dark-purple"),
]

LINK_STATES: list[ValueMapping] = [
    meanings(
        {
            "0": ("both ways", WELL),
            "1": ("is not heard", SOON),
            "2": ("does not hear", "purple"),
            "3": ("neither", NOW),
        }
    )
]
