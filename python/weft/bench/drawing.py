"""A report as an SVG: for each kind of problem, ratios to the reference and a roofline."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from weft.bench.measure import Result
from weft.bench.problem import INPUTS
from weft.bench.report import Report, teraflops
from weft.display.svg import Svg

# Operations of a multiprocessor's tensor cores in a clock, times the bits of an element of A.
_OPERATION_BITS = {"sm_80": 32768, "sm_90a": 65536}
_COLORS = ("#d9480f", "#1864ab", "#74c0fc", "#2b8a3e", "#862e9c")
_MODE = "burst"
_MARGIN, _HEIGHT, _BELOW = 60, 260, 160
_PER_PROBLEM, _ROOFLINE = 26, 420
_RADIUS = 4


@dataclass(frozen=True)
class _Axis:
    """Maps values from `low` to `high` to pixels from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        scale = math.log10 if self.log else float
        part = (scale(value) - scale(self.low)) / (scale(self.high) - scale(self.low))
        return self.start + part * (self.end - self.start)

    def ticks(self) -> Iterator[float]:
        """Powers of ten and halfway, or about eight round steps."""
        if self.log:
            for power in range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1):
                yield from (v for v in (10.0**power, 3 * 10.0**power) if self.low <= v <= self.high)
            return
        step = next(
            s for s in (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, math.inf) if (self.high - self.low) / s <= 8
        )
        for count in range(math.ceil(self.low / step), math.floor(self.high / step + 1e-9) + 1):
            yield count * step


def draw(report: Report) -> str:
    """The SVG. Results that weren't timed after a rest, or are wrong, aren't in it."""
    timed = [result for result in report.results if result.timing(_MODE)]
    groups: dict[str, list[Result]] = {}
    for result in timed:
        groups.setdefault(result.problem.kind, []).append(result)
    names = list(dict.fromkeys(result.implementation for result in timed))
    colors = {name: _COLORS[number % len(_COLORS)] for number, name in enumerate(names)}
    widest = max((len(_problems(group)) for group in groups.values()), default=0) * _PER_PROBLEM
    left = max(widest, 240)
    svg = Svg(left + _ROOFLINE + 3 * _MARGIN, 50 + len(groups) * (_HEIGHT + _BELOW))
    svg.add("text", f"{report.device.get('name', '')}, {report.started}", x=_MARGIN, y=20)
    x = _MARGIN
    for name, color in colors.items():
        svg.add("rect", x=x, y=30, width=9, height=9, fill=color)
        svg.add("text", name, x=x + 13, y=38)
        x += 30 + 7 * len(name)
    for number, group in enumerate(groups.values()):
        top = 70 + number * (_HEIGHT + _BELOW)
        _ratios(svg, report, group, colors, (_MARGIN, top, left, _HEIGHT))
        _roofline(svg, report, group, colors, (left + 2 * _MARGIN, top, _ROOFLINE, _HEIGHT))
    return svg.text()


def _problems(group: Sequence[Result]) -> list[str]:
    return list(dict.fromkeys(result.problem.shape for result in group))


_Frame = tuple[float, float, float, float]  # left, top, width, height


def _grid(svg: Svg, frame: _Frame, title: str, x: _Axis | None, y: _Axis) -> None:
    left, top, width, height = frame
    svg.add("text", title, x=left, y=top - 8, font_weight="bold")
    for value in y.ticks():
        svg.line(left, y(value), left + width, y(value), "#dee2e6")
        svg.add("text", f"{value:.6g}", x=left - 6, y=y(value) + 4, text_anchor="end")
    for value in x.ticks() if x else ():
        svg.line(x(value) if x else 0, top, x(value) if x else 0, top + height, "#dee2e6")
        svg.add("text", f"{value:.6g}", x=x(value) if x else 0, y=top + height + 16, text_anchor="middle")


def _ratios(svg: Svg, report: Report, group: Sequence[Result], colors: dict[str, str], frame: _Frame) -> None:
    """One mark for each result that can be compared, a column for each problem."""
    left, top, _, height = frame
    ratios = [(result, ratio) for result in group if (ratio := report.speed(result, _MODE)) is not None]
    values = [ratio for _, ratio in ratios]
    y = _Axis(min([*values, 0.9]) - 0.05, max([*values, 1.1]) + 0.05, top + height, top)
    _grid(svg, frame, f"{group[0].problem.kind}: speed over {report.reference}", None, y)
    svg.line(left, y(1.0), left + frame[2], y(1.0), "#495057")
    positions = {shape: left + (n + 0.5) * _PER_PROBLEM for n, shape in enumerate(_problems(group))}
    for shape, x in positions.items():
        rotation = f"rotate(-55 {x:g} {top + height + 14:g})"
        svg.add("text", shape, x=x, y=top + height + 14, text_anchor="end", transform=rotation)
    for result, ratio in ratios:
        title = f"{result.implementation}, {result.problem.shape}: {ratio:.3f}"
        _mark(svg, "ratio", positions[result.problem.shape], y(ratio), colors[result.implementation], title)


def _roofline(
    svg: Svg, report: Report, group: Sequence[Result], colors: dict[str, str], frame: _Frame
) -> None:
    """One mark for each result, under what the memory and the tensor cores admit."""
    left, top, width, height = frame
    intensities = [result.problem.flops / result.problem.moved_bytes for result in group]
    points = [(r, i, teraflops(r, _MODE) or 0.0) for r, i in zip(group, intensities, strict=True)]
    peak = _peak(report, group[0])
    rates = [rate for _, _, rate in points] + ([peak] if peak else [])
    x = _Axis(min(intensities) / 1.5, max(intensities) * 1.5, left, left + width, log=True)
    y = _Axis(min(rates) / 1.5, max(rates) * 1.3, top + height, top, log=True)
    _grid(svg, frame, f"{group[0].problem.kind}: TFLOP/s over operations a byte", x, y)
    _roof(svg, x, y, report.device.get("copy_gb_s"), peak)
    for result, intensity, rate in points:
        title = f"{result.implementation}, {result.problem.shape}: {rate:.1f} TFLOP/s"
        _mark(svg, "roof", x(intensity), y(rate), colors[result.implementation], title)


def _mark(svg: Svg, kind: str, x: float, y: float, color: str, title: str) -> None:
    svg.add("circle", title=title, class_=kind, cx=x, cy=y, r=_RADIUS, fill=color, fill_opacity=0.8)


def _roof(svg: Svg, x: _Axis, y: _Axis, copied: float | None, peak: float | None) -> None:
    """What memory that moves `copied` GB/s and tensor cores of `peak` TFLOP/s admit."""
    points = []
    for step in range(201):
        intensity = x.low * (x.high / x.low) ** (step / 200)
        limit = min(copied * intensity / 1e3 if copied else math.inf, peak or math.inf)
        if y.low <= limit <= y.high:
            points.append(f"{x(intensity):.1f},{y(limit):.1f}")
    svg.add("polyline", points=" ".join(points), fill="none", stroke="#495057")
    if peak:
        said = f"{peak:.0f} TFLOP/s at the highest clock"
        svg.add("text", said, x=x.end, y=y(peak) - 5, text_anchor="end")


def _peak(report: Report, result: Result) -> float | None:
    """The tensor cores' TFLOP/s at the highest clock of the GPU; None where either isn't known."""
    clock = report.device.get("settings", {}).get("clocks.max.sm", "").partition(" ")[0]
    operations = _OPERATION_BITS.get(report.device.get("chip", ""))
    if operations is None or not clock.isdigit():
        return None
    bits = INPUTS[result.problem.inputs].element.bits
    return float(report.device["multiprocessors"] * int(clock) * operations / bits / 1e6)
