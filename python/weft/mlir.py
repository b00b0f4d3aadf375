"""The only place that imports MLIR: the bindings under one name, with their hazards tamed.

A real `mlir-python-bindings` is taken where it is installed, else the upstream bindings that torch-mlir
carries.
"""

import functools
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
from typing import Any

from weft import bindings, late_imports, mlir_text, phase, system
from weft.compiler.llvm_floats import respelled
from weft.errors import Diagnostic, Location, WeftError
from weft.isa.suggest import did_you_mean

_PROJECTS = {"mlir": "mlir-python-bindings", "torch_mlir": "torch-mlir"}
_CHOSEN = bindings.choose(tuple(_PROJECTS), "pip install torch-mlir==20261001")
DISTRIBUTION = _CHOSEN.name
LEFT = _CHOSEN.left  # sentences about packages that are found first, but lack what Weft needs


def _module(name: str) -> Any:
    return importlib.import_module(f"{DISTRIBUTION}.{name}")


ir: Any = _module("ir")
PassManager: Any = _module("passmanager").PassManager
ext: Any = _module("dialects.ext")
arith: Any = _module("dialects.arith")
func: Any = _module("dialects.func")
gpu: Any = _module("dialects.gpu")
irdl: Any = _module("dialects.irdl")
llvm: Any = _module("dialects.llvm")
memref: Any = _module("dialects.memref")
nvvm: Any = _module("dialects.nvvm")
scf: Any = _module("dialects.scf")
vector: Any = _module("dialects.vector")
rewrite: Any = _module("rewrite")

MLIRError: type[Exception] = ir.MLIRError


@functools.cache
def hand_out_all_attributes() -> None:
    """Lets the bindings hand out every attribute, those that they have no class for as an `ir.Attribute`.

    As they come, `array<si32: 1>` and locations raise TypeError where they are looked up, and end the process
    where they are an entry of a dictionary. Needs a current context.
    """
    # The most frequent first: a class that an attribute hasn't takes as long as thirty that it has.
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


def _hand_out(sample: Any, classes: list[Any]) -> None:
    """Attributes like the sample come as the first of these classes that they have."""

    def as_class(found: Any) -> Any:
        return next((made for kind in classes if (made := cast(kind, found)) is not None), found)

    ir.register_type_caster(sample.typeid, replace=True)(as_class)


def _as_text(attribute: Any) -> str:
    """A string's value; bytes that are no UTF-8 as escapes, where the bindings would raise RuntimeError."""
    return str(attribute.value_bytes.decode("utf-8", "backslashreplace"))


ir.StringAttr.value = property(_as_text)


_UPSTREAM = ("arith", "builtin", "func", "gpu", "llvm", "memref", "nvvm", "scf", "vector")


def find_dialects_in(package: str, names: Iterable[str]) -> None:
    """Lets the bindings find the classes of dialects of these names in modules of `package`.

    Without it they search in vain for the module of a Python-defined dialect at every operation they touch.
    They search at once, since imports that begin while another thread forks never end in the child.
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
    """The distribution that the bindings come from, and its version."""
    with late_imports.whole():
        return bindings.distribution(DISTRIBUTION, _PROJECTS[DISTRIBUTION])


def location(loc: Any, name: str | None = None) -> Location | None:
    """Where in the user's text an MLIR location points; `name` stands in for a text without file (`-`)."""
    if (found := cast(ir.FileLineColLoc, loc)) is not None:
        file = str(found.filename).strip('"')
        return Location(name if name and file == "-" else file, found.start_line, found.start_col)
    if (found := cast(ir.NameLoc, loc)) is not None:
        return location(found.child_loc, name)
    if (found := cast(ir.CallSiteLoc, loc)) is not None:
        return location(found.callee, name) or location(found.caller, name)
    if (found := cast(ir.FusedLoc, loc)) is not None:
        return next((place for inner in found.locations if (place := location(inner, name))), None)
    return None


def cast(kind: Any, value: Any) -> Any:
    """A location, type or attribute as the class that it has, or None where that is another.

    The bindings hand out the base class in places (locations, parameters of dynamic types).
    """
    try:
        return kind(value)
    except (TypeError, ValueError):  # a location isn't made of an attribute
        return None


INTEGER = "an integer of at most 64 bits"


def is_integer(attribute: Any) -> bool:
    """Whether an attribute is an integer of at most 64 bits: Python can't print those of thousands."""
    if not isinstance(attribute, ir.IntegerAttr):
        return False
    kind = cast(ir.IntegerType, attribute.type)
    return kind is None or kind.width <= 64


def diagnostic(info: Any, name: str | None) -> Diagnostic:
    return Diagnostic(
        info.message + _meant(info.message),
        location(info.location, name),
        str(info.severity).rsplit(".", 1)[-1].lower(),
        tuple(
            Diagnostic(d.message, d.location, "note") for d in (diagnostic(note, name) for note in info.notes)
        ),
    )


def error(failure: Any, name: str | None = None) -> WeftError:
    """An MLIRError as a WeftError, every diagnostic with its place in the text called `name`."""
    found = [diagnostic(d, name) for d in failure.error_diagnostics]
    return WeftError(*(found or [Diagnostic(str(failure))]))


@contextmanager
def located(name: str | None = None) -> Iterator[None]:
    """Turns an MLIRError from the block into a WeftError."""
    try:
        yield
    except MLIRError as failure:
        raise error(failure, name) from None


def parse(text: str, context: Any, name: str = "-") -> Any:
    """The module that `text` spells. Raises WeftError with the place of each mistake, in the file called
    `name`.
    """
    mlir_text.check(text, name)
    phase.enter(f"parsing {name}")
    try:
        return ir.Module.parse(text, context)
    except MLIRError as failure:
        raise _parse_error(failure, text, name) from None


def parse_attribute(text: str, name: str) -> Any:
    """The attribute that `text` spells, in the current context. Raises WeftError as `parse` does."""
    mlir_text.check(text, name)
    phase.enter(f"parsing {name}")
    try:
        return ir.Attribute.parse(text)
    except MLIRError as failure:
        # To MLIR the text is its file's name.
        found = [(d, d.location and replace(d.location, file=name)) for d in error(failure).diagnostics]
        raise WeftError(*(replace(d, location=place) for d, place in found)) from None


def parse_type(text: str, name: str) -> Any:
    """The type that `text` spells, in the current context. Raises WeftError as `parse` does."""
    mlir_text.check(text, name)
    phase.enter(f"parsing {name}")
    with located():
        return ir.Type.parse(text)


def parse_file(path: str | Path, context: Any) -> Any:
    """The module in a .mlir file; its operations carry the file's name. Raises WeftError as `parse` does."""
    try:
        text = Path(path).read_text("utf-8")
    except OSError as failure:
        raise WeftError(f"cannot read {path}: {failure.strerror}") from None
    except UnicodeDecodeError as failure:
        line = failure.object.count(b"\n", 0, failure.start) + 1
        raise WeftError(f"cannot read {path}: no UTF-8 text in line {line}") from None
    mlir_text.check(text, str(path))
    phase.enter(f"parsing {path}")
    try:
        return ir.Module.parseFile(str(path), context)
    except MLIRError as failure:
        raise _parse_error(failure, text, str(path)) from None


def _parse_error(failure: Any, text: str, name: str) -> WeftError:
    """MLIR says nothing of an operation of a Python-defined dialect that isn't written in quotes."""
    if not failure.error_diagnostics:
        for number, line in enumerate(text.splitlines(), 1):
            found = _BARE.search(line.partition("//")[0])
            if found and found[1] in _defined_in_python():
                message = (
                    f"custom op '{found[1]}' has no form of its own: write \"{found[1]}\"(…) : (…) -> (…)"
                )
                return WeftError(Diagnostic(message, Location(name, number, found.start(1) + 1)))
    return error(failure, name)


# The name of an operation at the beginning of a line, perhaps after its results.
_BARE = re.compile(r"^\s*(?:%[\w$.:, %-]+=\s*)?([a-z]\w*\.[\w.]+)")


_UNKNOWN_OPERATION = re.compile(r"unregistered operation '([\w.]+)'|custom op '([\w.]+)' is unknown")


def _meant(message: str) -> str:
    """The operations that one may have meant whose name nobody knows."""
    if (found := _UNKNOWN_OPERATION.match(message)) is None:
        return ""
    upstream = (arith, func, gpu, llvm, memref, nvvm, scf, vector)
    classes = [kind for module in upstream for kind in vars(module).values()]
    known = {str(getattr(kind, "OPERATION_NAME", "")) for kind in classes} | _defined_in_python()
    return did_you_mean(found[1] or found[2], known)


def _defined_in_python() -> set[str]:
    found, kinds = set(), [ext.Operation]
    while kinds:
        kind = kinds.pop()
        kinds += kind.__subclasses__()
        found.add(getattr(kind, "OPERATION_NAME", ""))
    return found


def strides(kind: Any) -> tuple[list[int], int] | None:
    """The strides and the offset of a memref type; None where its layout isn't made of them."""
    try:
        found, offset = kind.get_strides_and_offset()
    except RuntimeError:
        return None
    return list(found), int(offset)


def constant(value: Any) -> Any:
    """The number that a value is, where an `arith.constant` makes it; else None."""
    owner = value.owner
    made = not isinstance(owner, ir.Block) and isinstance(owner.opview, arith.ConstantOp)
    return owner.opview.literal_value if made else None


def symbol(op: Any) -> str:
    """The name of a function."""
    return str(op.operation.attributes["sym_name"].value_bytes.decode("utf-8", "backslashreplace"))


def kernel(name: str, arguments: Iterable[Any]) -> Any:
    """A `gpu.func` kernel of these argument types, with an empty body.

    Upstream's constructor marks one with an attribute that lowering leaves beside its own: text that MLIR
    can't read.
    """
    kind = ir.TypeAttr.get(ir.FunctionType.get(list(arguments), []))
    made = gpu.GPUFuncOp(kind, sym_name=name, body_builder=lambda _: None)
    made.operation.attributes["kernel"] = ir.UnitAttr.get()
    return made


def operations(op: Any, *kinds: Any) -> list[Any]:
    """The operations of the given classes below `op`, or `op` itself, each before those it contains."""
    names = {kind.OPERATION_NAME for kind in kinds}
    if _reachable.get():
        found = _patterns_matches(op.operation, names)
        if not found or all(kind._ODS_REGIONS == (0, True) for kind in kinds):
            return found
    only_functions = names <= _FUNCTIONS
    found = []

    def visit(inner: Any) -> Any:
        name = inner.name
        if name in names:
            found.append(inner)
        return ir.WalkResult.SKIP if only_functions and name not in _MODULES else ir.WalkResult.ADVANCE

    op.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    return [inner.opview for inner in found]


_MODULES = {"builtin.module", gpu.GPUModuleOp.OPERATION_NAME}
_FUNCTIONS = _MODULES | {kind.OPERATION_NAME for kind in (func.FuncOp, gpu.GPUFuncOp, llvm.LLVMFuncOp)}

_reachable: ContextVar[bool] = ContextVar("reachable", default=False)


@contextmanager
def only_reachable_blocks(module: Any) -> Iterator[None]:
    """In the block, `operations` takes a hundredth of the time, if `module` has no unreachable block now.

    MLIR's own search for operations by name passes over such blocks. No pass that lowers makes one.
    """
    token = _reachable.set(_every_block_is_reachable(module))
    try:
        yield
    finally:
        _reachable.reset(token)


def _every_block_is_reachable(module: Any) -> bool:
    unreachable = False

    def visit(op: Any) -> Any:
        nonlocal unreachable
        unreachable = any(map(_has_unreachable_block, op.regions))
        return ir.WalkResult.INTERRUPT if unreachable else ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return not unreachable


def _has_unreachable_block(region: Any) -> bool:
    blocks = list(region.blocks)
    reached = blocks[:1]
    for block in reached:  # which grows
        end = list(block.operations)[-1] if len(blocks) > 1 else None
        reached += [each for each in end.operation.successors if each not in reached] if end else []
    return len(reached) < len(blocks)


def _patterns_matches(op: Any, names: set[str]) -> list[Any]:
    """The operations of these names in reachable blocks of `op`, by patterns that match and change nothing.

    What holds others comes after them.
    """
    found = [op.opview] if op.name in names else []

    def match(inner: Any, _: Any) -> bool:
        found.append(inner.opview)
        return True  # that is, no match

    patterns = rewrite.RewritePatternSet(op.context)
    for name in names:
        patterns.add(name, match)
    rewrite.walk_and_apply_patterns(op, patterns.freeze())
    return found


def translate(op: Any, *, apart: bool = False) -> str:
    """The LLVM IR of a module of LLVM-dialect operations alone. Raises WeftError for anything else in it.

    The check comes first because the translation crashes on an operation that it doesn't know. It crashes too
    where it fails, on an intrinsic that doesn't exist for instance: `apart` runs it in a process of its own.
    """
    left: list[Diagnostic] = []

    def visit(inner: Any) -> Any:
        known = inner.name.startswith(("llvm.", "nvvm.")) or inner.name in ("gpu.module", "builtin.module")
        if not known:
            left.append(Diagnostic(f"'{inner.name}' op isn't lowered to LLVM", location(inner.location)))
        return ir.WalkResult.ADVANCE

    op.operation.walk(visit)
    phase.enter("translating to LLVM IR")
    if left:
        raise WeftError(*left)
    if apart:
        return _translate_apart(op)
    return respelled(str(llvm.translate_module_to_llvmir(op.operation)))


_PATIENCE_SECONDS = 300.0  # for a translation in a process of its own


def _translate_apart(op: Any) -> str:
    """`translate` in a child process, which may die of what it reads."""
    text: str = op.operation.get_asm(enable_debug_info=True)
    done = system.run(
        system.python("-m", "weft.mlir"), text=text, timeout=_PATIENCE_SECONDS, name="MLIR's translation"
    )
    if done.returncode == 0:
        return done.stdout
    said = re.findall(r'^loc\("(.*?)":(\d+):(\d+)\): error: (.*)$', done.stderr, re.MULTILINE)
    found = [Diagnostic(what, Location(file, int(row), int(column))) for file, row, column, what in said]
    reason = done.stderr.strip() or f"its process ended with {done.returncode}"
    raise WeftError(*(found or [Diagnostic(f"MLIR can't translate the module: {reason}")]))


if __name__ == "__main__":
    _parsed = ir.Module.parse(sys.stdin.read(), ir.Context())
    print(translate(_parsed.body.operations[0]), end="")
