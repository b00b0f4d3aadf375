"""The launch contract: the `weft.*` attributes by which a kernel specifies its launch.

Passes write them on the `gpu.func`; `weft.compiler.read_launch` reads them. docs/tile.md has the table.
"""

from dataclasses import dataclass
from typing import Any

from weft.dialects.op import refuse
from weft.mlir import ir


@dataclass(frozen=True)
class LaunchAttribute:
    """One attribute: its MLIR class, also in words for messages, its meaning, and the pass that sets
    it, if one does.
    """

    name: str
    kind: Any
    words: str
    meaning: str
    written_by: str

    def of(self, kernel: ir.OpView) -> ir.Attribute | None:
        """A kernel's attribute of this name, or None. Raises WeftError for one of another class."""
        attributes = kernel.operation.attributes
        if self.name not in attributes:
            return None
        attribute = attributes[self.name]
        if not isinstance(attribute, self.kind):
            raise refuse(kernel, f"{self.name} must be {self.words}, got {attribute}")
        return attribute

    def on(self, kernel: ir.OpView) -> bool:
        """Whether a kernel has the attribute."""
        return self.name in kernel.operation.attributes

    def set(self, kernel: ir.Operation, value: ir.Attribute) -> None:
        """Sets a kernel's attribute."""
        kernel.operation.attributes[self.name] = value


MIN_CTAS = "nvvm.minctasm"
"""LLVM's attribute of the CTAs that a multiprocessor must hold at least."""
GRID = LaunchAttribute(
    "weft.grid",
    ir.AffineMapAttr,
    "an affine map",
    "an affine map from the sizes of all memref arguments, in order, and as further symbols the integer "
    "arguments, to three numbers of CTAs",
    "outline-matmul",
)
REQUIRES = LaunchAttribute(
    "weft.requires",
    ir.AffineMapAttr,
    "an affine map",
    "an affine map from these sizes to numbers that must be 0",
    "outline-matmul",
)
WRITES = LaunchAttribute(
    "weft.writes",
    ir.DenseI32ArrayAttr,
    "array<i32: ...>",
    "the numbers of the arguments that are written, `array<i32: 2>`; without it, all of them",
    "outline-matmul",
)
ALIGNED = LaunchAttribute(
    "weft.aligned",
    ir.DenseI32ArrayAttr,
    "array<i32: ...>",
    "the alignment of the rows of each argument, in bytes, `array<i32: …>`",
    "outline-matmul",
)
WHOLE = LaunchAttribute(
    "weft.whole",
    ir.DenseI32ArrayAttr,
    "array<i32: ...>",
    "bytes at multiples of which the rows of each argument begin, and of which they are multiples, "
    "`array<i32: …>`; `weft.language` writes it",
    "",
)
SHARED_BYTES = LaunchAttribute(
    "weft.shared_bytes", ir.IntegerAttr, "an integer", "dynamic shared memory", "lower-buffers"
)
TENSOR_MAPS = LaunchAttribute(
    "weft.tensor_maps", ir.ArrayAttr, "an array", "the maps that follow the arguments", "lower-tma"
)
TENSOR_COLUMNS = LaunchAttribute(
    "weft.tensor_columns",
    ir.IntegerAttr,
    "an integer",
    "columns of tensor memory that a CTA allocates",
    "lower-tensor-memory",
)
STAGES = LaunchAttribute(
    "weft.stages",
    ir.IntegerAttr,
    "an integer",
    "stages of shared memory that TMA fills, of kernels for Blackwell",
    "expand-matmul",
)
PERSISTENT = LaunchAttribute(
    "weft.persistent",
    ir.IntegerAttr,
    "an integer",
    "`weft.grid` counts tiles; the limit of CTAs for each multiprocessor (0: none)",
    "outline-matmul",
)
DEPENDENT = LaunchAttribute(
    "weft.dependent",
    ir.Attribute,
    "an attribute",
    "the kernel itself waits for earlier work in the stream",
    "outline-matmul",
)
ARGUMENTS = LaunchAttribute(
    "weft.arguments",
    ir.ArrayAttr,
    "an array of types",
    "the types of the arguments of a lowered kernel",
    "record-arguments",
)
WORKSPACE = LaunchAttribute(
    "weft.workspace",
    ir.DenseI64ArrayAttr,
    "array<i64: ...>",
    "the last memref arguments are memory that the launch provides; their rows for each tile",
    "outline-matmul",
)
CTA_WORKSPACE = LaunchAttribute(
    "weft.cta_workspace",
    ir.DenseI64ArrayAttr,
    "array<i64: ...>",
    "as `weft.workspace`, with rows for each CTA",
    "outline-matmul",
)

CONTRACT = {
    each.name: each
    for each in (
        *(GRID, REQUIRES, WRITES, ALIGNED, WHOLE, SHARED_BYTES, TENSOR_MAPS),
        *(TENSOR_COLUMNS, STAGES, PERSISTENT, DEPENDENT, ARGUMENTS, WORKSPACE, CTA_WORKSPACE),
    )
}
