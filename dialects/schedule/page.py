"""A schedule as notebooks show it: its fields, and the tiles that a CTA multiplies."""

from dataclasses import fields
from typing import Any

from weft.dialects.product_types import Types
from weft.display.html import Html
from weft.display.svg import Svg

_LARGEST, _LEAST = 150, 12  # pixels of a side
_SHIFT = 4  # from stage to stage
_MOST_STAGES = 8
_A, _B, _D, _LINE = "#a5d8ff", "#ffec99", "#b2f2bb", "#495057"


def page(schedule: Any) -> str:
    """HTML of a schedule of any family."""
    made = Html(type(schedule).__name__, schedule.family or schedule.instruction)
    facts: list[tuple[str, object]] = []
    for each in fields(schedule):
        value = getattr(schedule, each.name)
        if each.name == schedule.key or value != each.default:
            facts.append((each.name, " x ".join(map(str, value)) if isinstance(value, tuple) else value))
    facts.append(("threads of a CTA", schedule.threads))
    types = Types("bf16", "bf16", "bf16")
    if schedule.complaint(types) is None:
        facts.append(("shared memory for bf16", f"{schedule.shared_bytes(types):,} bytes"))
    made.facts(facts)
    made.drawing(draw(schedule).root)
    return made.text()


def draw(schedule: Any) -> Svg:
    """The tiles of A, B and D, in one scale; those of A and B once for each stage."""
    m, n, k = schedule.block
    scale = _LARGEST / max(m, n, k)
    high, wide, deep = (max(_LEAST, scale * each) for each in (m, n, k))
    stages = max(1, min(schedule.stages, _MOST_STAGES))
    spread = _SHIFT * (stages - 1)
    left, top = 20 + deep + spread, 24 + deep + spread
    svg = Svg(left + wide + spread + 70, top + high + max(spread, 14) + 8)
    for number in reversed(range(stages)):
        shift = _SHIFT * number
        _box(svg, left - 8 - deep - shift, top + shift, deep, high, _A)
        _box(svg, left + shift, top - 8 - deep - shift, wide, deep, _B)
    _box(svg, left, top, wide, high, _D)
    rows, columns = schedule.swapped("M", "N")
    svg.add("text", f"{rows} {m}", x=left + wide + 6, y=top + high / 2 + 4)
    svg.add("text", f"{columns} {n}", x=left + wide / 2, y=top + high + 14, text_anchor="middle")
    svg.add("text", f"K {k}", x=left + wide + spread + 6, y=top - 8 - deep / 2)
    count = f"{schedule.stages} stages" if schedule.stages > 1 else "one stage"
    svg.add("text", count, x=6, y=14)
    for name, x, y in (
        ("A", left - 8 - deep / 2, top + high / 2 + 4),
        ("B", left + wide / 2, top - 4 - deep / 2),
        ("D", left + wide / 2, top + high / 2 + 4),
    ):
        svg.add("text", name, x=x, y=y, text_anchor="middle", font_weight="bold")
    return svg


def _box(svg: Svg, x: float, y: float, width: float, height: float, color: str) -> None:
    svg.add("rect", x=x, y=y, width=width, height=height, fill=color, stroke=_LINE)
