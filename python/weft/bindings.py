"""Which package's MLIR bindings are used: the first that has what Weft needs, with reasons against others."""

import importlib
import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from weft.compiler import loaded
from weft.errors import WeftError

# What is imported from the package, and names in it that older bindings or namesakes lack.
_NEEDED = {
    "ir": (
        "Context MLIRError MemRefType StridedLayoutAttr WalkResult DenseI32ArrayAttr loc_tracebacks"
        " DynamicType DynamicAttr register_type_caster"
    ),
    "passmanager": "PassManager",
    "dialects._ods_common": "_cext",
    "dialects.ext": "Dialect Operation Operand Result Region OperandDef ResultDef AttributeDef Variadicity",
    "dialects.arith": "ConstantOp",
    "dialects.func": "FuncOp",
    "dialects.gpu": "GPUModuleOp GPUFuncOp",
    "dialects.irdl": "load_dialects",
    "dialects.llvm": "translate_module_to_llvmir CallIntrinsicOp LLVMFuncOp",
    "dialects.memref": "",
    "dialects.nvvm": "WMMALoadOp MBarrierInitOp Tcgen05MMAOp Tcgen05LdRedOp",
    "dialects.scf": "ForOp",
    "dialects.vector": "",
    "rewrite": "RewritePatternSet walk_and_apply_patterns",
}
# What the import of a package that nobody vouches for may raise.
_FAILURES = (
    *(ImportError, OSError, SyntaxError, AttributeError, NameError, TypeError),
    *(ValueError, RuntimeError, LookupError, AssertionError),
)


@dataclass(frozen=True)
class Chosen:
    """The package that is taken, and a sentence about each that was found before it and isn't."""

    name: str
    left: tuple[str, ...]


def choose(names: Sequence[str], install: str) -> Chosen:
    """The first of some packages that has what Weft needs. Raises WeftError, which advises `install`, where
    none has.
    """
    left: list[str] = []
    for name in names:
        places = _places(name)
        if places is None:
            continue
        loaded.watch(name, *places, *(f"{place}/_mlir_libs" for place in places))
        if (reason := _lacking(name, places)) is None:
            return Chosen(name, tuple(left))
        left.append(f"the package '{name}' at {', '.join(places) or 'an unknown path'} isn't used: {reason}")
    notes = "".join(f"; {sentence}" for sentence in left)
    raise WeftError(f"no MLIR Python bindings are installed: {install}{notes}")


def distribution(name: str, project: str) -> str:
    """The PyPI project and version that a package comes from, or its folder where no project installed it."""
    try:
        return f"{project} {version(project)}"
    except PackageNotFoundError:
        return f"{name} at {', '.join(_places(name) or [])}"


def _places(name: str) -> list[str] | None:
    """The folders of a package, or the file of a module; None where there is none of that name."""
    try:
        spec = importlib.util.find_spec(name)
    except ValueError:  # made by hand in sys.modules
        return []
    if spec is None:
        return None
    if spec.submodule_search_locations is None:
        return [spec.origin or ""]
    return list(spec.submodule_search_locations)


def _lacking(name: str, places: Sequence[str]) -> str | None:
    """What keeps a package from being used. Only one that has the files is imported."""
    for module in ("ir", "passmanager"):
        if not any(
            (Path(p, module) / "__init__.py").exists() or [*Path(p).glob(f"{module}.*")] for p in places
        ):
            return f"it has no {name}.{module}"
    for module, needed in _NEEDED.items():
        whole = f"{name}.{module}"
        try:
            found = importlib.import_module(whole)
        except _FAILURES as failure:
            return f"importing {whole} raises {type(failure).__name__}: {failure}"
        if missing := [each for each in needed.split() if not hasattr(found, each)]:
            return f"{whole} has no {missing[0]}"
    return None
