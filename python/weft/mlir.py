"""The only module that imports MLIR's bindings. It works around their defects.

It uses those in the folder `WEFT_MLIR`, a package `mlir` if one is installed, or those in torch-mlir.
"""

import importlib
import importlib.util
import re
import sys
import types
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from weft.errors import Diagnostic, Location, WeftError
from weft.ir import bindings, mlir_text, sound_types, unknown_names
from weft.ir.conversions import kept_conversions
from weft.system import phase

_CHOSEN = bindings.choose(tuple(bindings.PROJECTS), "pip install torch-mlir")
DISTRIBUTION = _CHOSEN.name
LEFT = _CHOSEN.left  # sentences about earlier packages that lack what Weft needs

Root = TypeVar("Root", "ir.Module", "ir.Operation")
Op = TypeVar("Op", bound="ir.OpView")


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"{DISTRIBUTION}.{name}")


if TYPE_CHECKING:
    from weft.ir import classes

    ir = classes
else:
    ir = _module("ir")
PassManager: Any = _module("passmanager").PassManager
ext: Any = _module("dialects.ext")
arith: Any = _module("dialects.arith")
func: Any = _module("dialects.func")
gpu: Any = _module("dialects.gpu")
irdl: Any = _module("dialects.irdl")
llvm: Any = _module("dialects.llvm")
math: Any = _module("dialects.math")
memref: Any = _module("dialects.memref")
nvvm: Any = _module("dialects.nvvm")
scf: Any = _module("dialects.scf")
tensor: Any = _module("dialects.tensor")
vector: Any = _module("dialects.vector")
rewrite: Any = kept_conversions(_module("rewrite"))

MLIRError: type[Exception] = ir.MLIRError


def _hand_out_all_attributes() -> None:
    """Makes the bindings return every attribute, in all contexts. One without a class becomes an
    `ir.Attribute`.

    Without this, `array<si32: 1>` and locations raise TypeError when they are read, and end the process when
    they are entries of a dictionary.
    """
    # The most frequent class first: a failed conversion takes as long as thirty successful ones.
    arrays = ("DenseI32", "DenseI64", "DenseBool", "DenseI8", "DenseI16", "DenseF32", "DenseF64")
    _hand_out(ir.Attribute.parse("array<i32>"), [getattr(ir, f"{kind}ArrayAttr") for kind in arrays])
    elements = [ir.DenseIntElementsAttr, ir.DenseFPElementsAttr]
    _hand_out(ir.Attribute.parse("dense<1> : tensor<1xi32>"), elements)
    nowhere = ir.Location.unknown()
    for location in (
        nowhere,
        ir.Location.file("", 0, 0),
        ir.Location.name("", nowhere),
        ir.Location.callsite(nowhere, [nowhere]),
        ir.Location.fused([ir.Location.name("a"), ir.Location.name("b")]),
    ):
        _hand_out(location.attr, [type(location)])


def _hand_out(sample: ir.Attribute, classes: list[type[ir.Attribute]]) -> None:
    """Makes the bindings return attributes like the sample as the first of these classes that they have."""

    def as_class(attribute: ir.Attribute) -> ir.Attribute:
        casts = (cast(kind, attribute) for kind in classes)
        return next((each for each in casts if each is not None), attribute)

    ir.register_type_caster(sample.typeid, replace=True)(as_class)


with ir.Context(load_on_create_dialects=()):
    _hand_out_all_attributes()


# With escapes for bytes that aren't UTF-8: the bindings would raise RuntimeError.
ir.StringAttr.value = property(lambda attribute: attribute.value_bytes.decode("utf-8", "backslashreplace"))


_UPSTREAM = ("arith", "builtin", "func", "gpu", "llvm", "math", "memref", "nvvm", "scf", "tensor", "vector")


def find_dialects_in(package: str, names: Iterable[str]) -> None:
    """Makes the bindings find the classes of dialects with these names in modules of `package`.

    Without this, they search for the module of a Python-defined dialect at every operation. The search
    happens here because an import that is interrupted by another thread's fork never ends in the child.
    """
    known = _module("dialects._ods_common")._cext.globals
    known.append_dialect_search_prefix(package)
    for name in (*_UPSTREAM, *names):
        known._check_dialect_module_loaded(name)


_ELSEWHERE = "weft_registered_dialects"


def find_dialect(name: str, module: str) -> None:
    """The same for a dialect of this name, whose classes are in an imported module called as it likes."""
    known = _module("dialects._ods_common")._cext.globals
    # The bindings import the dialect's name below a prefix: there they shall find the module.
    if _ELSEWHERE not in sys.modules:
        sys.modules[_ELSEWHERE] = types.ModuleType(_ELSEWHERE)
        known.append_dialect_search_prefix(_ELSEWHERE)
    sys.modules[f"{_ELSEWHERE}.{name}"] = sys.modules[module]
    known._check_dialect_module_loaded(name)


def version() -> str:
    """The PyPI project and version of the bindings."""
    return bindings.distribution(DISTRIBUTION)


def location(loc: ir.Location, name: str | None = None) -> Location | None:
    """The source location of an MLIR location, or None. `name` replaces the file name `-`."""
    if (in_file := cast(ir.FileLineColLoc, loc)) is not None:
        file = str(in_file.filename).strip('"')
        return Location(name if name and file == "-" else file, in_file.start_line, in_file.start_col)
    if (named := cast(ir.NameLoc, loc)) is not None:
        return location(named.child_loc, name)
    if (call := cast(ir.CallSiteLoc, loc)) is not None:
        return location(call.callee, name) or location(call.caller, name)
    if (fused := cast(ir.FusedLoc, loc)) is not None:
        return next((first for inner in fused.locations if (first := location(inner, name))), None)
    return None


def cast(kind: Any, value: object) -> Any:
    """A location, type or attribute as an object of class `kind`, or None if it has another class.

    The bindings sometimes return the base class: for locations and for parameters of dynamic types.
    """
    try:
        return kind(value)
    except (TypeError, ValueError):  # the latter for an attribute that isn't a location
        return None


INTEGER = "an integer of at most 64 bits"


def is_integer(attribute: ir.Attribute) -> bool:
    """Whether an attribute is an integer of at most 64 bits. Python can't print integers of thousands of
    bits.
    """
    if not isinstance(attribute, ir.IntegerAttr):
        return False
    kind = cast(ir.IntegerType, attribute.type)
    return kind is None or kind.width <= 64


def diagnostic(info: Any, name: str | None) -> Diagnostic:
    """MLIR's diagnostic as a Weft diagnostic, with suggestions. `name` replaces the file name `-`."""
    # The name of a similar operation, if the message is about an unknown one.
    operation = unknown_names.operation(info.message)
    return Diagnostic(
        info.message + ("" if operation is None else _known(operation.partition(".")[0]).like(operation)),
        location(info.location, name),
        str(info.severity).rsplit(".", 1)[-1].lower(),
        tuple(
            Diagnostic(d.message, d.location, "note") for d in (diagnostic(note, name) for note in info.notes)
        ),
    )


def error(failure: Any, name: str | None = None) -> WeftError:
    """An MLIRError as a WeftError with all its diagnostics. `name` replaces the file name `-`."""
    diagnostics = [diagnostic(d, name) for d in failure.error_diagnostics]
    return WeftError(*(diagnostics or [Diagnostic(str(failure))]))


@contextmanager
def located(name: str | None = None) -> Iterator[None]:
    """Converts an MLIRError of the block to a WeftError."""
    try:
        yield
    except MLIRError as failure:
        raise error(failure, name) from None


def parse(text: str, context: ir.Context, name: str = "-") -> ir.Module:
    """Parses a module. Raises WeftError with the source location of each mistake, in the file `name`."""
    with _parsing(text, name):
        return _sound(ir.Module.parse(text, context), text, name)


@contextmanager
def _parsing(text: str, name: str) -> Iterator[None]:
    """In the block, MLIR parses text that its parser survives; converts an MLIRError to a WeftError."""
    mlir_text.check(text, name)
    phase.enter(f"parsing {name}")
    try:
        yield
    except MLIRError as failure:
        raise _parse_error(failure, text, name) from None


def parse_operation(text: str, context: ir.Context, name: str = "-") -> ir.Operation:
    """Parses a single operation, as `parse` does with a module."""
    with _parsing(text, name):
        return _sound(ir.Operation.parse(text, source_name=name, context=context), text, name)


def parse_bytecode(data: bytes, context: ir.Context, name: str) -> ir.Module:
    """Parses a module in MLIR's bytecode. Raises WeftError where that can't be done."""
    phase.enter(f"parsing {name}")
    with located(name):
        return _sound(ir.Module.parse(data, context), None, name)


def _sound(root: Root, text: str | None, name: str) -> Root:
    """Returns what was parsed. Raises WeftError for wrong types and attributes of Python-defined dialects."""
    defining = (each.name for each in ext.Dialect.__subclasses__() if each.types or each.attributes)
    walks = text is None or any(f"!{each}." in text or f"#{each}." in text for each in defining)
    if walks and (wrong := sound_types.diagnostics(ir, root, lambda at: location(at, name))):
        raise WeftError(*wrong)
    return root


def parse_attribute(text: str, name: str) -> ir.Attribute:
    """Parses an attribute in the current context. Raises WeftError as `parse` does."""
    mlir_text.check(text, name)
    phase.enter(f"parsing {name}")
    try:
        parsed = ir.Attribute.parse(text)
    except MLIRError as failure:
        # MLIR uses the text itself as the file name.
        pairs = [(d, d.location and replace(d.location, file=name)) for d in error(failure).diagnostics]
        raise WeftError(*(replace(d, location=located) for d, located in pairs)) from None
    if wrong := sound_types.complaint(ir, [parsed]):
        raise WeftError(Diagnostic(f"attribute {wrong}", Location(name, 1, 1)))
    return parsed


def parse_file(path: str | Path, context: ir.Context) -> ir.Module:
    """Parses a .mlir file, or MLIR's bytecode. Source locations of text contain the file's name. Raises
    WeftError as `parse` does.
    """
    try:
        data = Path(path).read_bytes()
    except OSError as failure:
        raise WeftError(f"cannot read {path}: {failure.strerror}") from None
    if data.startswith(mlir_text.BYTECODE):
        return parse_bytecode(data, context, str(path))
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as failure:
        line = failure.object.count(b"\n", 0, failure.start) + 1
        raise WeftError(f"cannot read {path}: line {line} isn't UTF-8 text") from None
    with _parsing(text, str(path)):
        return _sound(ir.Module.parseFile(str(path), context), text, str(path))


def _parse_error(failure: Any, text: str, name: str) -> WeftError:
    """A parse error. MLIR has no message for an operation of a Python-defined dialect without quotes."""
    if not failure.error_diagnostics:
        for number, line in enumerate(text.splitlines(), 1):
            bare = _BARE.search(line.partition("//")[0])
            if bare and bare[1] in _defined_in_python():
                generic = f'"{bare[1]}"(…) : (…) -> (…)'
                message = f"custom op '{bare[1]}' has no custom assembly format: write {generic}"
                return WeftError(Diagnostic(message, Location(name, number, bare.start(1) + 1)))
    about = [unknown_names.explained(each, text, _known()) for each in error(failure, name).diagnostics]
    return WeftError(*about)


# The name of an operation at the beginning of a line, perhaps after its results.
_BARE = re.compile(r"^\s*(?:%[\w$.:, %-]+=\s*)?([a-z]\w*\.[\w.]+)")


def _known(upstream: str = "") -> unknown_names.Known:
    """The names that text may contain: those of Weft, of extensions, and of the dialects of upstream's that
    Weft uses, or that is called `upstream`.
    """
    operations = upstream_operations().keys() | _defined_in_python() | _operations_of(upstream)
    dialects = {each.name: each for each in ext.Dialect.__subclasses__()}
    types, attributes = (
        {name: [each._name for each in getattr(dialect, of)] for name, dialect in dialects.items()}
        for of in ("types", "attributes")
    )
    return unknown_names.Known(operations, types, attributes)


def upstream_operations() -> dict[str, Any]:
    """The classes of operations in the dialects of upstream's that Weft uses, by name."""
    upstream = (arith, func, gpu, llvm, memref, nvvm, scf, vector)
    classes = [kind for module in upstream for kind in vars(module).values()]
    return {str(kind.OPERATION_NAME): kind for kind in classes if hasattr(kind, "OPERATION_NAME")}


def _operations_of(dialect: str) -> set[str]:
    """The names of the operations of a dialect of upstream's; none where the bindings don't have it."""
    try:
        kinds = vars(_module(f"dialects.{dialect}")).values()
    except ImportError:
        return set()
    return {str(kind.OPERATION_NAME) for kind in kinds if hasattr(kind, "OPERATION_NAME")}


def _defined_in_python() -> set[str]:
    names, kinds = set(), [ext.Operation]
    while kinds:
        kind = kinds.pop()
        kinds += kind.__subclasses__()
        names.add(getattr(kind, "OPERATION_NAME", ""))
    return names


def shape_of(kind: ir.Type) -> tuple[int | None, ...]:
    """The sizes of a tensor or memref type; None for those that it leaves open."""
    return tuple(None if kind.is_dynamic_dim(i) else kind.shape[i] for i in range(kind.rank))


def strides(kind: ir.Type) -> tuple[list[int], int] | None:
    """The strides and the offset of a memref type; None if its layout isn't strided."""
    try:
        each, offset = kind.get_strides_and_offset()
    except RuntimeError:
        return None
    return list(each), int(offset)


def indexing_maps(op: ir.OpView) -> list[ir.AffineMap] | None:
    """The affine maps by which a linalg operation indexes its operands; None for an operation without."""
    maps = _module("dialects.linalg").get_indexing_maps(op)
    return None if maps is None else [each.value for each in maps]


def display_mode(name: str) -> Any:
    """The mode in which statistics of passes are printed: "list" or "pipeline"."""
    return getattr(_module("passmanager").PassDisplayMode, name.upper())


def torch_exporter() -> ModuleType:
    """The exporter of PyTorch's modules to MLIR. Raises ImportError where it is missing."""
    return importlib.import_module("torch_mlir.fx")


def torch_exporter_error() -> type[Exception]:
    """The error that the exporter raises for a module that it can't lower."""
    return importlib.import_module("torch_mlir.compiler_utils").TorchMlirCompilerError


def constant(value: ir.Value) -> int | None:
    """The number of an `arith.constant`; None for any other value."""
    owner = value.owner
    is_constant = not isinstance(owner, ir.Block) and isinstance(owner.opview, arith.ConstantOp)
    return owner.opview.literal_value if is_constant else None


def splat(value: ir.Value) -> int | None:
    """The number of an `arith.constant`, or that of all elements of a vector or tile; otherwise None."""
    owner = value.owner
    if not isinstance(value.type, ir.ShapedType):
        return constant(value)
    if isinstance(owner, ir.Block) or not isinstance(owner.opview, arith.ConstantOp):
        return None
    elements = owner.opview.value
    return elements.get_splat_value().value if elements.is_splat else None


def symbol(op: ir.OpView) -> str:
    """The name of a function."""
    return str(op.operation.attributes["sym_name"].value_bytes.decode("utf-8", "backslashreplace"))


def kernel(name: str, arguments: Iterable[ir.Type]) -> ir.OpView:
    """A `gpu.func` kernel with these argument types and an empty body, in a `gpu.module` of its name.

    Upstream's constructor sets another attribute, which lowering duplicates; MLIR can't parse the result.
    """
    kind = ir.TypeAttr.get(ir.FunctionType.get(list(arguments), []))
    with ir.InsertionPoint(gpu.GPUModuleOp(name).bodyRegion.blocks.append()):
        function = gpu.GPUFuncOp(kind, sym_name=name, body_builder=lambda _: None)
    function.operation.attributes["kernel"] = ir.UnitAttr.get()
    return function


def clone(op: ir.Operation, values: dict[ir.Value, ir.Value]) -> None:
    """Copies an operation to the insertion point, with the operands that `values` has for those of it and of
    its regions, and adds its results to these.
    """
    copy = op.clone()
    for each in within(copy):
        for number, operand in enumerate(each.operands):
            if operand in values:
                each.operands[number] = values[operand]
    values |= zip(op.results, copy.results, strict=True)


def within(op: ir.Operation | ir.Module) -> list[ir.Operation]:
    """An operation and all in its regions, in pre-order."""
    found = list[ir.Operation]()

    def visit(inner: ir.Operation) -> ir.WalkResult:
        found.append(inner)
        return ir.WalkResult.ADVANCE

    op.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    return found


def operations(op: ir.Operation | ir.Module, *kinds: type[Op]) -> list[Op]:
    """The operations of these classes in `op`, including `op` itself, in pre-order."""
    names = {kind.OPERATION_NAME for kind in kinds}
    if _reachable.get():
        matches = _pattern_matches(op.operation, names)
        without_regions = all(kind._ODS_REGIONS == (0, True) for kind in kinds)
        return matches if without_regions else _in_pre_order(matches)
    return [inner.opview for inner in _named(op, names)]


def _named(op: ir.Operation | ir.Module, names: set[str]) -> list[Any]:
    """The operations with these names in `op`, including itself, in pre-order."""
    only_functions = names <= _FUNCTIONS
    visited = []

    def visit(inner: ir.Operation) -> ir.WalkResult:
        name = inner.name
        if name in names:
            visited.append(inner)
        return ir.WalkResult.SKIP if only_functions and name not in _MODULES else ir.WalkResult.ADVANCE

    op.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    return visited


_MODULES = {"builtin.module", gpu.GPUModuleOp.OPERATION_NAME}
_FUNCTIONS = _MODULES | {kind.OPERATION_NAME for kind in (func.FuncOp, gpu.GPUFuncOp, llvm.LLVMFuncOp)}

_reachable: ContextVar[bool] = ContextVar("reachable", default=False)


@contextmanager
def only_reachable_blocks(module: ir.Operation | ir.Module) -> Iterator[None]:
    """Makes `operations` a hundred times as fast in the block, if `module` has no unreachable basic block.

    MLIR's own search for operations skips unreachable blocks. No lowering pass creates one.
    """
    token = _reachable.set(_every_block_is_reachable(module))
    try:
        yield
    finally:
        _reachable.reset(token)


def _every_block_is_reachable(module: ir.Operation | ir.Module) -> bool:
    return not any(_has_unreachable_block(region) for op in within(module) for region in op.regions)


def _has_unreachable_block(region: ir.Region) -> bool:
    blocks = list(region.blocks)
    reached = blocks[:1]
    for block in reached:  # `reached` grows in the loop
        end = block.operations[-1] if len(blocks) > 1 else None
        reached += [each for each in end.operation.successors if each not in reached] if end else []
    return len(reached) < len(blocks)


def _pattern_matches(op: ir.Operation, names: set[str]) -> list[Any]:
    """The operations with these names in reachable blocks of `op`, in post-order, by rewrite patterns that
    change nothing.
    """
    matches = [op.opview] if op.name in names else []

    def match(inner: Any, _: Any) -> bool:
        matches.append(inner.opview)
        return True  # to MLIR: no match

    patterns = rewrite.RewritePatternSet(op.context)
    for name in names:
        patterns.add(name, match)
    rewrite.walk_and_apply_patterns(op, patterns.freeze())
    return matches


def _in_pre_order(matches: list[Any]) -> list[Any]:
    """The pre-order of operations that are given in post-order. Siblings have the same order in both."""
    inner: dict[Any, list[Any]] = {None: [], **{match.operation: [] for match in matches}}
    for match in matches:
        around = match.operation.parent and match.operation.parent.operation
        while around not in inner:
            around = around.parent and around.parent.operation
        inner[around].append(match)
    ordered, pending = list[Any](), inner[None][::-1]
    while pending:
        ordered.append(pending.pop())
        pending += inner[ordered[-1].operation][::-1]
    return ordered
