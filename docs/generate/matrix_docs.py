"""Writes docs/matrix.md, the products of `tile.matmul` by chip: `python docs/generate/matrix_docs.py`."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from weft.schedules import matrix
from weft.schedules.matrix import Cell
from weft.tools.isa_matmul import HEADINGS, cells_of

PAGE = Path(__file__).resolve().parents[1] / "matrix.md"

_ABOUT = """\
# Supported types by chip

This page lists which element types `tile.matmul` and `weft.matmul` support on each chip, with their layouts
and options. These commands print the same tables, and for each unsupported product the chips that support it:

```sh
weft isa --matmul --arch sm_90a
weft isa --matmul --types f8E4M3FN
```

## Overview

The table has the instruction that computes large products. An empty field means that the chip doesn't
support the product.

"""

_DETAILS = """\
## Columns of the tables

The sections below have one table for each group of chips that support the same products.

| column | contents |
|---|---|
| family | the [families of schedules](schedule.md) that support the product. The first is the default for large products; the option `family` selects another one |
| layouts | `nt`: A is M x K and B is N x K. With `n` for B, B is K x N; with `t` for A, A is K x M |
| D | the types of D. Sums are f32, for integers i32, for f64 f64 |
| extras | the options that the product supports. All products support batches, C, bias, activations and residual |
| rows | the alignment of rows: any, any for D only, or multiples of 16 bytes. `weft.matmul` copies other matrices |
| measured | whether a report in [benchmarks](../benchmarks/README.md) has such products on a GPU |

| extra | meaning |
|---|---|
| `accumulate` | sums in f16 in the tensor cores (`accumulate = "f16"`) |
| `promote` | sums of 128 products of fp8, added up in f32 |
| `scales` | f32 scales for 128 elements along K ([scales](scaled.md)) |
| `words` | block scales in [words of four](scaled.md#words-of-four-scales) |
| `groups` | groups of rows: contiguous, masked or by their ends ([groups](batches.md)) |
| `k_ends` | groups along K |

On sm_107, `tcgen05` is used only if you pass a schedule, since there is no model that predicts its time.

`python docs/generate/matrix_docs.py` writes this page from the registered families of schedules. These tests check it:

| test | what it checks |
|---|---|
| `test/python/test_matrix.py` | the page agrees with the families; there is a message for each unsupported product |
| its slow tests | the emulator and its sanitizer multiply each product: every family, layout, type of D and extra, rows that begin at any element, batches and epilogues, at three sizes, one of them odd |
| `test/gpu/test_matrix_gpu.py` | a GPU with sm_90a multiplies the products of its chip and of older ones |

"""  # noqa: E501


def page() -> str:
    """The text of docs/matrix.md."""
    cells = matrix.cells()
    parts = (_ABOUT, "\n".join(_overview(cells)), "\n\n", _DETAILS, "\n".join(_sections(cells)))
    return "".join(parts).rstrip("\n") + "\n"


def _overview(cells: Sequence[Cell]) -> Iterator[str]:
    """The instruction of each product in each group of chips."""
    groups = list(matrix.groups(cells))
    yield f"| A and B | {' | '.join('<br>'.join(chips) for chips, _ in groups)} |"
    yield "|---" * (len(groups) + 1) + "|"
    for row in zip(*(of_chip for _, of_chip in groups), strict=True):
        yield f"| {row[0].inputs} | {' | '.join(cell.instruction for cell in row)} |"


def _sections(cells: Sequence[Cell]) -> Iterator[str]:
    for chips, of_chip in matrix.groups(cells):
        yield from (f"## {', '.join(chips)}", "")
        able = [cell for cell in of_chip if cell.complaint is None]
        if able:
            yield f"| {' | '.join(HEADINGS)} |"
            yield "|---" * len(HEADINGS) + "|"
            yield from (f"| {' | '.join(cells_of(cell))} |" for cell in able)
            yield ""


def main() -> int:
    """Writes the page."""
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
