"""The plot of docs/bloom-clocks.md, as SVG text. Both axes of both panels are logarithmic."""

from collections.abc import Iterator, Sequence
from math import log10
from typing import NamedTuple

Point = tuple[float, float]

STYLE = """\
  svg { --back: #fff; --text: #1f2328; --grid: #d8dee4; --measured: #1f2328; --ramabaja: #0969da; --misra: #bc4c00 }
  @media (prefers-color-scheme: dark) {
    svg { --back: #0d1117; --text: #e6edf3; --grid: #30363d }
    svg { --measured: #e6edf3; --ramabaja: #58a6ff; --misra: #f0883e }
  }
  text { font: 13px sans-serif; fill: var(--text) } .middle { text-anchor: middle } .end { text-anchor: end }
  .title { font-weight: bold } .grid { stroke: var(--grid) } .back { fill: var(--back) }
  .equal { stroke: var(--text); stroke-dasharray: 5 5; opacity: 0.6 }
  polyline { fill: none; stroke-width: 2 }"""
COLOURS = ("measured", "ramabaja", "misra")


class Curve(NamedTuple):
    """Some points with a name. The name tells the colour too."""

    name: str
    points: Sequence[Point]


class Panel(NamedTuple):
    """A square of the plot: where its left edge is, and the powers of ten at which its axes begin and end."""

    left: int
    x_range: Point
    y_range: Point
    title: str
    x_title: str
    top: int = 56
    width: int = 330
    height: int = 270

    def x(self, value: float) -> float:
        low, high = self.x_range
        return self.left + self.width * min(1.0, max(0.0, (log10(max(value, 1e-300)) - low) / (high - low)))

    def y(self, value: float) -> float:
        low, high = self.y_range
        return self.top + self.height * (1 - min(1.0, max(0.0, (log10(max(value, 1e-300)) - low) / (high - low))))


RATES = Panel(64, (-1, 1), (-5, 0), "Unrelated pairs that look before", "counters for each process (m / n)")
SHARES = Panel(478, (-8, 0), (-3, 0), "Pairs that look before: share that is wrong", "estimate")


def draw(rates: Sequence[Curve], shares: Sequence[Curve]) -> str:
    """The rate that was measured with the mean estimates; and the share that is wrong, by estimate."""
    body = [*_frame(RATES), *_frame(SHARES)]
    low = 10 ** max(SHARES.x_range[0], SHARES.y_range[0])
    body.append(_line("equal", (SHARES.x(low), SHARES.y(low)), (SHARES.x(1), SHARES.y(1))))
    body.append(_text(SHARES.x(0.01) - 8, SHARES.y(0.01) - 6, "where a posterior would lie", "end"))
    body += [line for curve in rates for line in _curve(RATES, curve)]
    body += [line for curve in shares for line in _curve(SHARES, curve)]
    body += _legend()
    inner = "\n".join(f"  {line}" for line in body)
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 840 410" width="840" height="410" role="img">\n'
        "  <title>How often Bloom clocks are wrong, and what two estimates say of it</title>\n"
        f'  <style>\n{STYLE}\n  </style>\n  <rect class="back" width="840" height="410"/>\n{inner}\n</svg>\n'
    )


def _text(x: float, y: float, text: str, classes: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{classes}">{text}</text>'


def _line(classes: str, start: Point, end: Point) -> str:
    return f'<line class="{classes}" x1="{start[0]:.1f}" y1="{start[1]:.1f}" x2="{end[0]:.1f}" y2="{end[1]:.1f}"/>'


def _power(exponent: int) -> str:
    superscript = str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{10**exponent:g}" if -2 <= exponent <= 1 else f"10{superscript}"


def _frame(panel: Panel) -> Iterator[str]:
    bottom, right = panel.top + panel.height, panel.left + panel.width
    yield _text(panel.left + panel.width / 2, panel.top - 14, panel.title, "middle title")
    for exponent in range(int(panel.x_range[0]), int(panel.x_range[1]) + 1, 2 if panel is SHARES else 1):
        x = panel.x(10.0**exponent)
        yield _line("grid", (x, panel.top), (x, bottom))
        yield _text(x, bottom + 18, _power(exponent), "middle")
    for exponent in range(int(panel.y_range[0]), int(panel.y_range[1]) + 1):
        y = panel.y(10.0**exponent)
        yield _line("grid", (panel.left, y), (right, y))
        yield _text(panel.left - 8, y + 4, _power(exponent), "end")
    yield _text(panel.left + panel.width / 2, bottom + 40, panel.x_title, "middle")


def _curve(panel: Panel, curve: Curve) -> Iterator[str]:
    colour = f"var(--{curve.name.lower()})"
    points = [(panel.x(x), panel.y(y)) for x, y in curve.points]
    yield f'<polyline style="stroke: {colour}" points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}"/>'
    for x, y in points:
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" style="fill: {colour}"/>'


def _legend() -> Iterator[str]:
    names = ("measured", "Ramabaja's estimate", "Misra's estimate")
    for colour, name, x in zip(COLOURS, names, (180, 330, 540), strict=True):
        yield f'<line x1="{x}" y1="392" x2="{x + 26}" y2="392" style="stroke: var(--{colour}); stroke-width: 3"/>'
        yield _text(x + 34, 396, name, "")
