"""Writes docs/ops.md, the operations of the instruction dialects, and docs/tile.md, those of tiles, and what
type checkers read about their builders: `python docs/generate/op_docs.py [FOLDER]`.
"""

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from inspect import cleandoc, signature
from pathlib import Path
from typing import Any

from weft.dialects import DIALECTS, tile
from weft.dialects.builders import Builder
from weft.dialects.descriptor import DescriptorOp
from weft.dialects.element_types import PTX_INPUTS, PTX_SCALES
from weft.dialects.instruction import InstructionOp
from weft.dialects.launch_contract import CONTRACT
from weft.isa.tcgen05.descriptors import KINDS, Kind, legal_m, legal_n
from weft.mlir import ext
from weft.passes.builders.tcgen05_products import ACCUMULATORS

_ROOT = Path(__file__).resolve().parents[2]
_ABOUT = '''\
# Instruction operations

The dialects `wmma`, `mma`, `wgmma` and `tcgen05` have an operation for each instruction; attributes select
its form. This kernel transposes a matrix:

```python
import numpy as np
import weft

text = """
gpu.module @m {
  gpu.func @transpose(%p: !llvm.ptr) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %lane = nvvm.read.ptx.sreg.tid.x : i32
    %at = llvm.getelementptr %p[%lane] : (!llvm.ptr, i32) -> !llvm.ptr, i32
    %0 = llvm.load %at : !llvm.ptr -> i32
    %1 = "mma.movmatrix"(%0) : (i32) -> i32
    llvm.store %1, %at : i32, !llvm.ptr
    gpu.return
  }
}
"""
x = np.arange(64, dtype=np.uint16).reshape(8, 8)
weft.compile(text, arch="sm_80").emulate(x, grid=(1, 1, 1))
assert (x == np.arange(64).reshape(8, 8).T).all()
```

- [The tables](isa/index.md) list the forms, and the chips that have them.
- Operations are written in MLIR's generic form, with their names in quotes. They have no custom assembly,
  because MLIR's Python bindings offer none for dialects that are defined in Python.
- The module around an operation sets the chip: `gpu.module @m [#nvvm.target<chip = "sm_90a">]`. Without a
  chip, a form must be legal on some chip.
- If an operation has several operands of variable length, `operandSegmentSizes` is the number of registers of
  each operand in the order below, and 0 for an absent one.

In Python, each operation is a function of the same name in `weft.dialects.wmma`, `mma`, `wgmma` or `tcgen05`.
It takes operands (a value, or a list of registers) and attributes by name, and raises `weft.WeftError` if the
form isn't legal. `test/dialects` has a file of valid and a file of invalid forms for each dialect.

Descriptors are also operations, whose attributes are their fields. In Python,
`weft.isa.wgmma.descriptors.MatrixDescriptor`, `weft.isa.tcgen05.descriptors` and
`weft.isa.tcgen05.shared_descriptor` encode and decode their words. `weft.isa.mma.packed` encodes and decodes
the 64-bit words in which NVIDIA's compiler packs the warp-level instructions of chips before sm_90.
'''


_ABOUT_TILES = """\
# Tile operations

The `tile` dialect has `tile.matmul`, a whole product, and the operations of which its kernels consist:
copies, rings, roles and products of tiles. You can write such kernels yourself. `examples/tma_gemm.mlir` is
one with TMA, a ring, two roles and `wgmma`:

```python
from pathlib import Path

import numpy as np
import weft

kernel = weft.compile(Path("examples/tma_gemm.mlir"), arch="sm_90a")
a, b = np.random.default_rng(0).standard_normal((2, 64, 256)).astype(np.float16)
d = np.empty((64, 64), np.float32)
report = kernel.emulate(a, b, d)
assert not report.findings
assert np.allclose(d, a.astype(np.float64) @ b.T.astype(np.float64), atol=1e-3)
```

In MLIR, operations are written in the generic form, with their names in quotes. They have no custom assembly,
because MLIR's Python bindings offer none for dialects that are defined in Python; printed modules give long
types short names. In Python, each operation is a function of the same name in `weft.dialects.tile`; `await_`
and `slice_` have an underscore, because Python uses these names. Each pass lowers one kind of operations
(`weft-opt --list-passes`); `weft compile FILE --arch sm_90a` runs all passes.

{subjects}

## Types

| type | meaning |
|---|---|
| `!tile.buffer<array<i64: M, N>, T, #tile.layout<"S[…]">, "shared">` | a tile in shared memory |
| `tensor<MxNxT, #tile.layout<"S[…]">>` | a tile in registers; `arith`, `math` and `scf` take it |
| `tensor<MxNxT>` | a tile in registers whose layout `--assign-layouts` chooses |
| `!tile.map<array<i64: M, N>, T, #tile.layout<"S[…]">>` | a matrix from or to which TMA copies tiles |
| `!tile.ring<N : i64>` | the mbarriers of a pipeline of N stages |

A buffer is in the CTA's shared memory (`"shared"`), in the shared memory of another CTA of the cluster
(`"cluster"`), or in tensor memory (`"tmem"`). A fragment belongs to a warp, or to a warpgroup if its layout
contains `warpid`. A map has the layout of the buffers that it copies.

Types and layouts are verified where text is parsed and where Python builds them, also if no operation uses
them.

## Counterparts of CUDA Tile IR

Operations of [CUDA Tile IR](https://docs.nvidia.com/cuda/tile-ir/) are on tiles whose layout its compiler
decides. The same on `tensor<MxNxT>`:

| CUDA Tile IR | here |
|---|---|
| `absf`, `absi`, `ceil`, `cos`, `cosh`, `exp`, `exp2`, `floor`, `fma`, `log`, `log2`, `pow`, `rsqrt`, \
`sin`, `sinh`, `sqrt`, `tan`, `tanh` | `math` |
| `addf`, `addi`, `andi`, `bitcast`, `cmpf`, `cmpi`, `constant`, `divf`, `divi`, `exti`, `ftof`, `ftoi`, \
`itof`, `maxf`, `maxi`, `minf`, `mini`, `mulf`, `mulhii`, `muli`, `negf`, `negi`, `ori`, `remi`, `select`, \
`shli`, `shri`, `subf`, `subi`, `trunci`, `xori` | `arith` |
| `broadcast`, `iota` | `tile.broadcast`, `tensor.splat`; `tile.coordinate` |
| `reduce` | `tile.reduce`, with a region |
| `mmaf`, `mmai` | `tile.gemm`; in a loop, `--pipeline-loops` chooses the instructions |
| `load_view_tko`, `store_view_tko`, `make_tensor_view`, `make_partition_view`, `get_tensor_shape`, \
`get_index_space_shape` | `tile.load` and `tile.store` at coordinates of a memref, `memref.subview`, \
`memref.dim` |
| `for`, `if`, `loop`, `break`, `continue`, `yield` | `scf.for`, `scf.if`, `scf.while` |
| `entry`, `module`, `return`, `get_tile_block_id`, `get_num_tile_blocks` | `gpu.func`, `gpu.module`, \
`gpu.return`, `gpu.block_id`, `gpu.grid_dim` |
| `assume` | `weft.aligned` and `weft.whole` of the kernel, which the launch checks |
| `scan`, `permute`, `cat`, `extract`, `atomic_cas_tko`, `atomic_rmw_tko`, `assert`, `print` | only in \
[`weft.language`](language.md), which builds them of the elements of each lane |
| `reshape` | none: a tile has two dimensions, a vector one |
| `remf` | none: no instruction computes it exactly. `x - y * trunc(x / y)` is near |
| `load_ptr_tko`, `store_ptr_tko`, `offset`, `int_to_ptr`, `ptr_to_int`, `ptr_to_ptr` | none on tiles: \
indices into a memref can be checked, pointers can't. `llvm` has them for each thread |
| `make_token`, `join_tokens` | none: accesses of memory are in the order of the program, and asynchronous \
ones have rings |
| `global`, `get_global` | none: arrays are arguments |

## Layouts

A layout maps each element of a tile to an address in memory, or to a lane and a register. It has the form
`S[(extents):(strides)]`. To find an element:

1. Number the elements of the tile row by row, from 0.
2. Split the number of the element into digits, one for each extent. The last digit varies fastest.
3. Multiply each digit by the corresponding stride, and add up the results separately for each axis: `@laneid`
   counts lanes, `@warpid` counts warps, and a stride without an axis counts elements of memory, or registers
   of a lane.

For example, the sums of `mma.sync` are 16 x 8 in `S[(2,8,4,2):(2,4@laneid,1@laneid,1)]`. The element in row 9
and column 5 has the number 9 * 8 + 5 = 77. Its digits are 1, 1, 2 and 1, since 77 = 1 * 64 + 1 * 8 + 2 * 2 +
1 * 1. So it is in lane 1 * 4 + 2 * 1 = 6 and register 1 * 2 + 1 * 1 = 3. The sums of `wgmma` are 64 x N in
`S[(4,2,8,N/8,4,2):(1@warpid,2,4@laneid,4,1@laneid,1)]`.

A layout in memory may end in a swizzle, as `S[(64,64):(64,1)] xor 128B`: it permutes byte addresses in the
same way as TMA and `wgmma`.

In tensor memory, `@TLane` counts lanes, and `@TCol` counts columns in units of the buffer's elements. A
column has 32 bits, so two f16 elements in one column are at `0@TCol` and `1@TCol`.
`weft.isa.tcgen05.tensor_layouts` has functions for the layouts of all operands of `tcgen05.mma`, such as
`accumulator(m, n, cta_group)`, `operand_a(m, k)` and `scales(rows, groups)`. Examples:

| buffer | layout |
|---|---|
| 128 x N sums in f32 | `S[(128,N):(1@TLane,1@TCol)]` |
| 128 x N sums in f16, one in each column | `S[(128,N):(1@TLane,2@TCol)]` |
| 64 x N sums in f32 | `S[(4,16,N):(32@TLane,1@TLane,1@TCol)]` |
| 32 x 4 scales, with a copy for each of four warps | `S[(32,4):(1@TLane,1@TCol)] + R[(4):(32@TLane)]` |

A warpgroup can load 128 x N sums to a fragment of layout `S[(4,32,N):(1@warpid,1@laneid,1)]`, and 64 x N sums
to a fragment with the layout of `wgmma`'s sums.

`R` (a replica) adds copies. The stages of a buffer of rank 3 may overlap. Those of
`S[(2,128,256):(240@TCol,1@TLane,1@TCol)]` share 16 columns.

## Products in tensor memory

`examples/tcgen05_gemm.mlir` is a kernel of one warpgroup: TMA copies two tiles, one thread multiplies them
with `tile.gemm_async` into tensor memory, and all threads store the result. `examples/tcgen05_gemm.py` builds
it from Python, for one CTA or a pair, in f16, mxfp8 and nvfp4, and the same with `wgmma`.

The kind of instruction follows from the types of A, B and the scales:

| kind | A and B | scales | C | K of an instruction |
|---|---|---|---|---|
{kinds}

A and B may have different types of one kind. One instruction multiplies M x N:

| kind | M | N | M of a pair | N of a pair |
|---|---|---|---|---|
{shapes}

- An MN-major B with elements of 8 bits or fewer needs an N in steps of 16, in a pair in steps of 32.
- Larger tiles take several instructions along M and N. Along K, each instruction is one step. The first step
  adds C only if `accumulate` is true; the other steps always add it. On sm_103a, 256 packed elements take
  three steps: 96, 96 and 64.
- In the kinds f8f6f4 and mxf8f6f4, 16 elements of 4 or 6 bits take 16 bytes of shared memory. They are packed
  in the first 8 or 12 of these bytes. A layout counts elements of 4 bits in units of half a byte, as in
  `S[(128,8,16):(256,32,1)]`. In the kinds mxf4 and mxf4nvf4, two elements share a byte.
- In shared memory, A and B consist of panels as wide as the swizzle (16 bytes without one). A panel has
  groups of eight rows, which are contiguous. Groups are a constant distance apart, and so are panels. A row
  of a panel runs along K if the operand is K-major, otherwise along M (or N). An operand may be a stage or a
  slice of a larger buffer.
- MN-major operands of f32 need the swizzle `128B_32B`, which has groups of four rows. Packed elements must be
  K-major.
- A column of tensor memory has the scales of four groups of elements along K, a byte each. Each warp of a
  warpgroup has a copy of all scales in its lanes. `tile.copy_tmem` copies scales from the 128x4 layout. The
  number of groups is padded to a multiple of 4 if it is greater than 2. In a pair, each CTA has the scales of
  its own rows of A, and of all columns of B.
- `tile.gemm_async` doesn't wait. The same thread then executes `tile.commit` of a ring that "mma" fills, or
  `tcgen05.commit`. These signal when C may be read and the operands may be overwritten.

`weft compile FILE --arch sm_100a --tile-explain-dispatch` prints which candidate lowers a product and, for
each other candidate, the predicate that refuses it. For copies and loads it prints the instructions. With
`weft-opt`, it explains only what the named passes lower.

## Kernels in Python

`examples/tcgen05_gemm.py` and `examples/warp_gemm.py` are complete kernels.

- `with module.kernel(name, types, block=(128, 1, 1), grid=(1, 1, 1), writes=[2]) as (a, b, d):` begins a
  kernel. `block` is the number of threads, `grid` the number of CTAs, and `writes` has the indices of the
  arguments that the kernel writes. `cluster=(2, 1, 1)` makes clusters of two CTAs.
- `weft.dialects.tile` has `BufferType.of(shape, element, layout, space)` and `FragmentType.of(shape, element,
  layout)`. The space of a buffer is `"shared"` by default.
- Indices, stages, phases and coordinates are i32 values. `weft.mlir` has the upstream dialects, such as
  `arith`, `scf` and `gpu`, and `ir` for their types.
- The regions of `tile.role` and `tile.tensor_memory` are `with` statements.

## Launch attributes

Passes write these attributes on the `gpu.func`, and `weft.compile` reads them. [Your own launch
code](launch.md) needs the same values.

| attribute | meaning |
|---|---|
| `known_block_size` | threads of a CTA, `array<i32: 256, 1, 1>` |
| `known_cluster_size` | CTAs of a cluster, `array<i32: 2, 1, 1>` |
{attributes}

## Operations
"""


# What the operations of each file of the dialect are about.
_SUBJECTS = {
    "tile_matmul": "whole products in global memory",
    "tile_epilogue": "what products do to their sums",
    "tile_team": "what the GPUs of a team exchange in a product",
    "tile_copies": "copies between global and shared memory",
    "tile_buffers": "buffers and their parts",
    "tile": "loads and stores of fragments",
    "tile_values": "reductions, broadcasts, coordinates and layouts of fragments",
    "tile_gemm": "products of fragments of a warp",
    "tile_async": "asynchronous products of warpgroups and in tensor memory",
    "tile_sums": "sums of warpgroups in named registers",
    "tile_tensor_memory": "tensor memory",
    "tile_roles": "roles of warps",
    "tile_rings": "rings of stages, with their mbarriers",
    "tile_launch_control": "tiles in dynamic order (cluster launch control)",
    "tile_claims": "partial sums of several CTAs",
    "tile_flags": "several GPUs",
}


def pages() -> dict[str, str]:
    """The text of each page, by its name in docs/."""
    instructions = [_ABOUT]
    for dialect in DIALECTS:
        ops = [op for op in _operations(dialect) if issubclass(op, InstructionOp | DescriptorOp)]
        if ops:
            instructions += [f"## {dialect.DIALECT_NAMESPACE}", ""]
            for op in ops:
                instructions += _operation(op)
    tiles = [line for op in _operations(tile.Tile) for line in _operation(op)]
    writers = {a: f"; `--{a.written_by}` writes it" if a.written_by else "" for a in CONTRACT.values()}
    attributes = [f"| `{a.name}` | {a.meaning}{writer} |" for a, writer in writers.items()]
    about = _ABOUT_TILES.replace("{attributes}", "\n".join(attributes))
    about = about.replace("{kinds}", "\n".join(map(_kind, KINDS.values())))
    about = about.replace("{subjects}", "\n".join(_subjects()))
    about = about.replace("{shapes}", "\n".join([*map(_shapes, KINDS), _weight_stationary()]))
    return {"ops.md": "\n".join(instructions), "tile.md": "\n".join([about, *tiles])}


def stubs() -> dict[str, str]:
    """The signatures of the builders of each dialect, by file in dialects/."""
    written = {}
    for name in (dialect.DIALECT_NAMESPACE for dialect in DIALECTS):
        module = vars(sys.modules[f"weft.dialects.{name}"])
        if made := [each for each in module.values() if isinstance(each, Builder)]:
            lines = [_STUB.format(name)]
            for each in made:
                shown = re.sub(r"(: |-> )'([^']+)'", r"\1\2", str(signature(each)))  # types without quotes
                lines.append(f"def {each.__name__}{shown}: ...".replace("collections.abc.", ""))
            written[f"{name}_builders.pyi"] = "\n".join([*lines, ""])
    return written


_STUB = """\
\"\"\"Builders of `{}`, written by `python docs/generate/op_docs.py`.\"\"\"

from collections.abc import Sequence

from weft.mlir import ir
"""


def _subjects() -> Iterator[str]:
    """The operations of tiles by subject."""
    yield from ("| for | operations |", "|---|---|")
    files: dict[str, list[str]] = {name: [] for name in _SUBJECTS}
    for op in _operations(tile.Tile):
        name = str(op.OPERATION_NAME)
        files[op.__module__.rpartition(".")[2]].append(f"[`{name}`](#{name.replace('.', '')})")
    yield from (f"| {_SUBJECTS[file]} | {', '.join(ops)} |" for file, ops in files.items())


def _kind(kind: Kind) -> str:
    """The row of a kind of `tcgen05.mma` in the table of products."""

    def named(types: Mapping[str, str], ptx: Iterable[str]) -> str:
        return ", ".join(f"`{mlir}`" for mlir, name in types.items() if name in ptx)

    types, sums = named(PTX_INPUTS, kind.elements), named(ACCUMULATORS, kind.accumulators)
    of_scales = named(PTX_SCALES, kind.scales or ())
    return f"| {kind.name} | {types} | {of_scales or 'none'} | {sums} | {kind.k} |"


def _shapes(kind: str) -> str:
    """The row of a kind of `tcgen05.mma` in the table of shapes."""
    extents = ((legal_m(kind, group), legal_n(kind, group)) for group in (1, 2))
    return f"| {kind} | {' | '.join(_ranges(each) for both in extents for each in both)} |"


def _weight_stationary() -> str:
    """The row of the instructions that keep B, which is the same for all kinds."""
    m, n = legal_m("f16", 1, ws=True), legal_n("f16", 1, ws=True)
    return f"| any without scales, `weight_stationary` | {_ranges(m)} | {_ranges(n)} | – | – |"


def _ranges(numbers: Sequence[int]) -> str:
    """`8, 16, 24, 32 to 256 by 16`: the last numbers as a range where they have one step."""
    step = numbers[-1] - numbers[-2] if len(numbers) > 1 else 0
    first = len(numbers) - 1
    while first and numbers[first] - numbers[first - 1] == step:
        first -= 1
    if len(numbers) - first <= 2:
        return ", ".join(map(str, numbers))
    return ", ".join([*map(str, numbers[:first]), f"{numbers[first]} to {numbers[-1]} by {step}"])


def _operations(dialect: Any) -> Iterator[Any]:
    return iter(sorted(dialect.operations, key=lambda op: str(op.OPERATION_NAME)))


def _operation(op: Any) -> Iterator[str]:
    yield from (f'### "{op.OPERATION_NAME}"', "", cleandoc(op.__doc__ or ""), "")
    if issubclass(op, InstructionOp):
        dialect = op.OPERATION_NAME.partition(".")[0]
        yield from (f"Forms: [`{op.family.name}`](isa/{dialect}.md).", "")
    for what, kind in (("operands", ext.OperandDef), ("results", ext.ResultDef)):
        names = [f"`{field.name}`" for field in op._fields if isinstance(field, kind)]
        if names:
            yield f"- {what}: {', '.join(names)}"
    declared = [f.name for f in op._fields if not isinstance(f, ext.OperandDef | ext.ResultDef)]
    if declared:
        yield f"- attributes: {', '.join(f'`{name}`' for name in declared)}"
    if op.optional:
        defaults = (f"`{name}` ({_shown(value)})" for name, value in op.optional.items())
        yield f"- attributes with defaults: {', '.join(defaults)}"
    yield from ("", "```mlir", *_example(op.OPERATION_NAME), "```", "")


def _shown(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value).lower()


def _example(name: str) -> list[str]:
    """The first use of an operation on the pages of valid forms, after the types that it abbreviates."""
    valid = _valid_forms(name.partition(".")[0])
    uses = ((i, lines) for lines in valid for i, line in enumerate(lines) if _uses(line, name))
    begin, lines = next(uses)
    rest = (line for line in lines[begin:] if "// CHECK" not in line)
    example = [next(rest)]
    while _open("\n".join(example)):
        example.append(next(rest))
    short = re.findall(r"![A-Z]\w*", "\n".join(example))
    types = [line for line in lines[:begin] if line.split(" = ")[0] in short]
    return [*types, *(re.sub("^  ", "", line) for line in example)]


@cache
def _valid_forms(dialect: str) -> list[list[str]]:
    """The lines of each page of a dialect's valid forms, that of its operations first."""
    folder = _ROOT / "test" / "dialects" / dialect
    files = [folder / "ops.mlir", *sorted(set(folder.glob("*.mlir")) - {folder / "ops.mlir"})]
    return [path.read_text(encoding="utf-8").split("\n") for path in files if "invalid" not in path.name]


def _uses(line: str, name: str) -> bool:
    return f'"{name}"(' in line and "//" not in line


def _open(text: str) -> bool:
    """Whether an operation goes on: a bracket is open, or its type is still to come."""
    depth = sum(text.count(a) - text.count(b) for a, b in ("()", "{}", "<>", "[]")) + text.count("->")
    return depth != 0 or "->" not in text or text.rstrip().endswith("->")


def main(arguments: list[str]) -> int:
    """Writes the pages, to docs/ of the checkout unless a folder is named."""
    for name, text in pages().items():
        Path(arguments[0] if arguments else "docs", name).write_text(text, encoding="utf-8")
    for name, text in stubs().items():
        (_ROOT / "dialects" / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
