"""The operations of upstream's arith, math, gpu, vector and memref dialects that kernels may contain: a row
for each, with the element types on which its lowering is right; those of `memref` without a row are right on
all. `test_upstream_operations.py` compares them with NumPy.

Others are refused before a pass of upstream's, which may compute something else or crash, sees them.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from weft import mlir
from weft.errors import Diagnostic
from weft.mlir import arith, ir, llvm, operations

FLOATS = ("f16", "bf16", "f32", "f64")
SHORT_FLOATS = ("f16", "bf16", "f32")
FP8 = ("f8E4M3FN", "f8E5M2")
INTEGERS = "integers up to 64 bits"
WIDER = "integers of 2 to 64 bits"  # LLVM 22.1 takes one bit for its complement, or without its sign
SIZED = "iN of 1 to 64 bits"
WORDS = ("i8", "i16", "i32", "i64")
BOOLEANS = ("i1",)
ANY = ("",)

Kinds = tuple[str, ...]


@dataclass(frozen=True)
class Row:
    """An operation on elements of these types; None where it is refused. `remedy`: what to write instead.
    `ranks`: those of the vectors that it takes; none for all.
    """

    kinds: Kinds | None
    remedy: str = ""
    ranks: tuple[int, ...] = ()


FORMULAS = {
    "acosh": "log1p(x - 1 + sqrt((x - 1) * (x + 1)))",
    "asinh": "copysign(log1p(absf(x) + x * x / (1 + sqrt(x * x + 1))), x)",
    "atanh": "(log1p(x) - log1p(-x)) / 2",
    "cbrt": "copysign(powf(absf(x), 1 / 3), x)",
    "acos": "pi / 2 - atan(x / sqrt((1 - x) * (1 + x)))",
    "asin": "atan(x / sqrt((1 - x) * (1 + x)))",
    "atan": "copysign(pi / 2, x) - atan(1 / x)",  # beyond 1
    "atan2": "atan(y / x) + (copysign(pi, y) if x < 0 else 0)",
}
"""Functions of `math` that aren't lowered, in terms of others."""
ATAN = "y = x / (1 + 0.28 * x * x)", "y = y - cos(y) * (sin(y) - x * cos(y))"
"""atan(x) of f32, for x in -1..1, after the second step was done twice."""
_BY_ATAN = (
    f"with {ATAN[0]} and, twice, {ATAN[1]} as atan(x) for x in -1..1; f64 needs __nv_atan in the module"
)
_BY_SHUFFLES = {"rotate": "use gpu.shuffle idx", "subgroup_broadcast": "use gpu.shuffle idx"}
_BY_HOST = "move it to a host function"
_BY_BUFFER = (
    "use an argument of the kernel, memref.alloca, or an attribution of the kernel in workgroup memory"
)
_BY_LANE = "compute it from gpu.thread_id: 32 threads are a subgroup"


def _rows(
    names: str, kinds: Kinds | None, remedy: str = "", dialect: str = "arith", *, ranks: tuple[int, ...] = ()
) -> dict[str, Row]:
    return {f"{dialect}.{name}": Row(kinds, remedy, ranks) for name in names.split()}


def _formula(name: str) -> str:
    formula = f"write {FORMULAS[name]}"
    return f"{formula}, {_BY_ATAN}" if "atan(" in formula else formula


TABLE: dict[str, Row] = {
    **_rows("constant select bitcast", ANY),
    **_rows("addi subi muli andi ori xori shli shrsi shrui divsi divui remsi remui", (INTEGERS,)),
    **_rows("floordivsi ceildivsi ceildivui maxsi maxui minsi minui cmpi extsi extui trunci", (INTEGERS,)),
    **_rows("addui_extended subui_extended", (SIZED,), ranks=(1,)),
    **_rows("mulsi_extended mului_extended", (INTEGERS,), ranks=(0, 1)),
    **_rows("index_cast index_castui", (INTEGERS,)),
    **_rows("addf subf mulf divf negf maximumf minimumf maxnumf minnumf", FLOATS),
    **_rows("extf truncf convertf", (*FLOATS, *FP8)),
    **_rows("cmpf", (*FLOATS, *BOOLEANS)),
    **_rows("sitofp", (*FLOATS, WIDER), "extend i1 with arith.extsi first"),
    **_rows("uitofp", (*FLOATS, INTEGERS)),
    **_rows("fptosi fptoui", (*FLOATS, WIDER), "compare with 0 for i1"),
    **_rows("remf", None, "write x - y * trunc(x / y) where that is exact enough"),
    **_rows("scaling_extf scaling_truncf", None, "use arith.extf, arith.truncf and arith.mulf"),
    **_rows("flush_denormals", None, "compare with the smallest normal number"),
    **_rows("absf ceil floor round roundeven trunc sqrt copysign fma clampf", FLOATS, "", "math"),
    **_rows("isfinite isinf isnan", (*FLOATS, *BOOLEANS), "", "math"),
    **_rows("cosh exp exp2 expm1 log log10 log1p log2 powf rsqrt sinh tanh", FLOATS, "", "math"),
    **_rows("fpowi", (*FLOATS, *WORDS), "", "math"),
    **_rows("cos erf erfc sin tan", SHORT_FLOATS, "", "math"),
    **_rows("absi ctlz cttz ctpop", WORDS, "", "math"),
    **{f"math.{name}": Row(None, _formula(name)) for name in FORMULAS},
    **_rows("isnormal", None, "compare math.absf with the smallest normal number", "math"),
    **_rows("ipowi", None, "write the multiplications", "math"),
    **_rows("sincos", None, "use math.sin and math.cos", "math"),
    **_rows("thread_id block_id block_dim grid_dim global_id lane_id barrier", ANY, "", "gpu"),
    **_rows("printf", (*FLOATS, INTEGERS), "extend it with arith.extf", "gpu"),
    **_rows("ballot", ("i32", "i64"), "", "gpu"),
    **_rows("cluster_id cluster_dim cluster_block_id cluster_dim_blocks", ANY, "", "gpu"),
    **_rows("dynamic_shared_memory subgroup_mma_load_matrix subgroup_mma_store_matrix", ANY, "", "gpu"),
    **_rows("subgroup_mma_compute subgroup_mma_constant_matrix", ANY, "", "gpu"),
    **_rows("subgroup_mma_elementwise", ANY, "", "gpu"),
    **_rows("subgroup_mma_extract_thread_local", None, "store the matrix, and load its elements", "gpu"),
    **_rows("subgroup_mma_insert_thread_local", None, "store the elements, and load them as a matrix", "gpu"),
    **_rows("shuffle", ("i32", "i64", "f32", "f64"), "extend or bitcast it to 32 bits", "gpu"),
    **_rows("all_reduce", ("i32", "i64", "f32", "f64"), "extend it to 32 bits", "gpu"),
    **_rows("subgroup_reduce", (*FLOATS, INTEGERS), "", "gpu"),
    **{f"gpu.{name}": Row(None, remedy) for name, remedy in _BY_SHUFFLES.items()},
    **_rows("subgroup_id num_subgroups subgroup_size", None, _BY_LANE, "gpu"),
    **_rows("warp_execute_on_lane_0", None, "use scf.if with gpu.lane_id", "gpu"),
    **_rows("initialize_named_barrier", None, "use nvvm.barrier with an id", "gpu"),
    **_rows("func module return yield terminator binary", ANY, "", "gpu"),
    **_rows("bitcast broadcast constant_mask create_mask extract gather load", ANY, "", "vector"),
    **_rows("extract_strided_slice from_elements insert insert_strided_slice interleave", ANY, "", "vector"),
    **_rows("shape_cast shuffle step store transfer_read transfer_write transpose", ANY, "", "vector"),
    **_rows(
        "compressstore expandload maskedload maskedstore scatter to_elements", ANY, "", "vector", ranks=(0, 1)
    ),
    **_rows("deinterleave", (*FLOATS, SIZED), "", "vector"),
    **_rows("contract", (*FLOATS, SIZED), "", "vector"),
    **_rows("outerproduct reduction", (*FLOATS, INTEGERS), "", "vector"),
    **_rows("fma", FLOATS, "", "vector"),
    **_rows("yield", ANY, "", "vector"),
    **_rows("multi_reduction scan", None, "use vector.reduction on each row", "vector"),
    # CSE takes an operation without the mask for it; maximumf begins with the negative number nearest to 0.
    **_rows("mask", None, "use vector.maskedload, vector.maskedstore or arith.select", "vector"),
    **_rows("print", None, "use gpu.printf", "vector"),
    **_rows("scalable.extract scalable.insert vscale", None, "use vectors of fixed sizes", "vector"),
    **_rows("type_cast", None, "use vector.load and vector.store", "vector"),
    **_rows("atomic_rmw generic_atomic_rmw", (*FLOATS, *WORDS), "", "memref"),
    **_rows("copy", ANY, "", "memref"),
    **_rows("alloc dealloc realloc", None, _BY_BUFFER, "memref"),
    **_rows("dma_start dma_wait", None, "use memref.copy or tile.copy", "memref"),
}

_MATRIX, _SHUFFLE = "gpu.subgroup_mma_", "gpu.shuffle"
_FRAGMENT = f"{_MATRIX}elementwise"
_FUNCTIONS = {
    **dict.fromkeys(("addf", "mulf", "subf", "divf", "negatef"), ("f16", "f32")),
    **dict.fromkeys(("maxf", "minf"), ("f32",)),
}
"""The functions of gpu.subgroup_mma_elementwise with the element types on which each is right."""
_RIGHT = Row(ANY)
_OTHERS = {
    "gpu": Row(None, _BY_HOST),
    **dict.fromkeys(("memref", "index", "ub", "arith", "math", "vector"), _RIGHT),
}
_ODD_FLOATS = ("tf32", "f80", "f128")


def has_library(kernel: ir.OpView) -> bool:
    """Whether a module has functions of CUDA's device library of its own, which upstream's lowering calls."""
    return any(mlir.symbol(each).startswith("__nv_") for each in operations(kernel, llvm.LLVMFuncOp))


def complaint(
    op: ir.Operation, legal: set[tuple[object, ...]], *, has_library: bool, in_kernel: bool
) -> Diagnostic | None:
    """Why an operation of these dialects isn't lowered; None where it is, and for other dialects. `legal` has
    the names and types of legal operations, which aren't checked again, and gets those of this one.
    """
    name = op.name
    dialect = name.partition(".")[0]
    row = TABLE.get(name, _OTHERS.get(dialect))
    if row is None or not (in_kernel or row.remedy not in (_BY_HOST, _BY_BUFFER)):
        return None
    if has_library and dialect == "math":
        row = _RIGHT
    if row.kinds is None:
        refused: tuple[str, str] | None = ("", row.remedy)
    else:
        types = name, *[each.type for each in op.operands], None, *[each.type for each in op.results]
        refused = None if types in legal else _wrong_type(op, row)
        if refused is None:
            if name != _FRAGMENT:  # which also depends on an attribute
                legal.add(types)
            refused = _wrong_attribute(op, name)
    if refused is None:
        return None
    what, instead = refused
    message = f"'{name}' op{what} isn't lowered by any pass of Weft: {instead}"
    return Diagnostic(message, mlir.location(op.location))


def _odd(kind: ir.Type | None) -> tuple[str, str] | None:
    """A value's type or its elements', and what is legal instead; None if it isn't an odd one."""
    while isinstance(kind, ir.VectorType | ir.MemRefType | ir.UnrankedMemRefType | ir.ComplexType):
        if isinstance(kind, ir.VectorType) and kind.scalable:
            return str(kind), "use vectors of fixed sizes"
        kind = kind.element_type
    return (str(kind), f"legal types are {', '.join(FLOATS)}") if str(kind) in _ODD_FLOATS else None


def _wrong_type(op: ir.Operation, row: Row) -> tuple[str, str] | None:
    """The illegal type in an operation and the legal ones, for a message; None if its types are legal."""
    assert row.kinds is not None
    if op.name.startswith(_MATRIX):
        return _wrong_matrix(op)
    values = [each.type for each in (*op.operands, *op.results)]
    if odd := next(filter(None, map(_odd, values)), None):
        return f" on {odd[0]}", odd[1]
    if row.ranks:
        for kind in values:
            if isinstance(kind, ir.VectorType) and kind.rank not in row.ranks:
                return f" on {kind}", "cast it to one dimension with vector.shape_cast"
    wrong = next((each for each in _elements(op) if not _is_one_of(each, row.kinds)), None)
    if wrong is None:
        return None
    remedy = (f"{row.remedy}; " if row.remedy else "") + f"legal types are {', '.join(row.kinds)}"
    return f" on {wrong}", remedy


def _wrong_matrix(op: ir.Operation) -> tuple[str, str] | None:
    """The same, for an operation on matrices of a warp."""
    matrices = [str(each.type) for each in (*op.operands, *op.results) if "mma_matrix" in str(each.type)]
    for kind in matrices:
        sizes, element, operand = _parts(kind)
        legal = _SIZES.get((element, operand), ())
        if sizes not in legal:
            others = f"legal sizes are {', '.join(legal)}" if legal else "such matrices don't exist"
            return f" on {kind}", others
        if op.name == _FRAGMENT:
            name = str(op.attributes["opType"]).split()[-1].rstrip(">")
            kinds = _FUNCTIONS.get(name, ()) if (element, operand) not in _TF32 else ()
            if element not in kinds:
                also = f"; legal types are {', '.join(kinds)}" if kinds else ""
                return f" {name} on {element}", f"store the matrix and use arith{also}"
    return None


def _wrong_attribute(op: ir.Operation, name: str) -> tuple[str, str] | None:
    attributes = op.attributes
    if "roundingmode" in attributes:  # LLVM can't lower some operations with one, not even to_nearest_even
        directed = "llvm.call_intrinsic has others of f32 and f64, such as llvm.nvvm.add.rp.f"
        return " with a rounding mode", f"omit the mode, which rounds to nearest even; {directed}"
    if name.startswith("arith."):
        return None
    bound = attributes.get("upper_bound")
    if isinstance(bound, ir.IntegerAttr) and not 0 < bound.value <= _MOST_THREADS:
        return f" with upper_bound {bound.value}", f"it must be in 1..{_MOST_THREADS}"
    if name in _OF_ROWS and not all(_is_row_major(each, _OF_ROWS[name]) for each in op.operands):
        return " on strided memrefs", "use memref.load and memref.store"
    if name.startswith("vector.") and any(_has_parts_of_bytes(each.type) for each in op.operands):
        return " on a memref whose elements are no whole bytes", "use memref.load and memref.store"
    if name == "memref.atomic_rmw" and attributes["kind"].value in _PRODUCTS:
        return " of products", "use memref.generic_atomic_rmw"
    if name == "gpu.all_reduce" and "uniform" not in attributes:
        by_subgroups = "use gpu.subgroup_reduce, and reduce its results through workgroup memory"
        return " without uniform", by_subgroups
    if name == "gpu.barrier" and "cluster" in str(attributes.get("scope")):
        return " of a cluster", "use nvvm.cluster.arrive and nvvm.cluster.wait"
    kind = str(attributes.get("kind")).partition("<")[2].rstrip(">")
    if name == "vector.contract" and kind not in ("add", ""):
        return f" with kind {kind}", "use vector.reduction"
    return None


def _has_parts_of_bytes(kind: ir.Type) -> bool:
    """Whether a memref has integers that memref.load finds in bytes of their own, and vectors packed."""
    element = kind.element_type if isinstance(kind, ir.MemRefType) else None
    return isinstance(element, ir.IntegerType) and element.width % 8 != 0


def _is_row_major(value: ir.Value, dimensions: int | None) -> bool:
    """Whether it is certain that so many dimensions of a memref, from the last, have no gaps."""
    kind, count = value.type, 1
    if not isinstance(kind, ir.MemRefType) or isinstance(kind.layout, ir.AffineMapAttr):
        return not isinstance(kind, ir.UnrankedMemRefType)
    strides = kind.get_strides_and_offset()[0]
    for size, stride in list(zip(kind.shape, strides, strict=True))[::-1][:dimensions]:
        if stride != count or (size < 0 and dimensions is None):
            return False
        count *= size
    return True


_PRODUCTS = (arith.AtomicRMWKind.mulf.value, arith.AtomicRMWKind.muli.value)
_OF_ROWS = {"memref.copy": None, "vector.gather": 1, "vector.scatter": 1}
"""Operations on memrefs without gaps in so many dimensions, or all."""
_TF32 = {("f32", "AOp"), ("f32", "BOp")}
_SUMS = ("16x16", "32x8", "8x32")
_SIZES: dict[tuple[str, str], Kinds] = {
    **{(kind, "AOp"): ("16x16", "32x16", "8x16") for kind in ("f16", "si8", "ui8")},
    **{(kind, "BOp"): ("16x16", "16x8", "16x32") for kind in ("f16", "si8", "ui8")},
    **{(kind, "COp"): _SUMS for kind in ("f16", "f32", "i32")},
    ("f32", "AOp"): ("16x8",),
    ("f32", "BOp"): ("8x16",),
    ("f64", "AOp"): ("8x4",),
    ("f64", "BOp"): ("4x8",),
    ("f64", "COp"): ("8x8",),
}


def _parts(kind: str) -> tuple[str, str, str]:
    """The sizes, the element type and the operand of a `!gpu.mma_matrix`."""
    sizes, _, element = kind.partition("<")[2].partition(",")[0].rpartition("x")
    return sizes, element, kind.partition('"')[2].partition('"')[0]


def element_of_matrix(kind: ir.Type) -> ir.Type:
    """The element type of a `!gpu.mma_matrix`."""
    return ir.Type.parse(_parts(str(kind))[1], kind.context)


def _elements(op: ir.Operation) -> Iterator[ir.Type | None]:
    """The element types of an operation's numbers."""
    values: Iterable[ir.Value] = (*op.operands, *op.results)
    if op.name == _SHUFFLE:
        values = op.operands[:1]
    elif op.name.startswith(("gpu.ballot", "memref.")):
        values = op.results
    for value in values:
        kind = value.type
        if isinstance(kind, ir.VectorType):
            yield kind.element_type
        elif isinstance(kind, ir.FloatType | ir.IntegerType | ir.IndexType):
            yield kind


def _is_one_of(kind: ir.Type | None, kinds: Kinds) -> bool:
    if kinds == ANY or str(kind) in kinds:
        return True
    if not {INTEGERS, WIDER, SIZED}.intersection(kinds):
        return False
    least = 2 if WIDER in kinds else 1
    is_index = isinstance(kind, ir.IndexType) and SIZED not in kinds
    return is_index or (isinstance(kind, ir.IntegerType) and least <= kind.width <= _MOST_BITS)


_MOST_BITS = 64
_MOST_THREADS = (1 << 31) - 1  # what a number of 32 bits holds
