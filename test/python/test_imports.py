"""Imports point one way: isa -> dialects -> passes -> stages -> tools. The emulator imports only isa."""

import ast
import functools
import sys
import tomllib
from pathlib import Path

import pytest

from weft.dialects.launch_contract import CONTRACT

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
MLIR = ("mlir", "torch_mlir")


def folder(package: str) -> Path:
    """Where a package's files lie, by pyproject's map."""
    for base, mapped in sorted(PROJECT["package-dir"].items(), key=lambda item: -len(item[0])):
        if package == base or package.startswith(f"{base}."):
            return ROOT / mapped / package[len(base) :].strip(".").replace(".", "/")
    return ROOT / package


MODULES = {
    f"{package}.{path.stem}".removesuffix(".__init__"): path
    for package in PROJECT["packages"]
    for pattern in ("*.pyi", "*.py")  # where both exist, the module is the latter
    for path in sorted(folder(package).glob(pattern))
}


@functools.cache
def statements(source: str) -> tuple[ast.Import | ast.ImportFrom, ...]:
    """The import statements anywhere in `source`, TYPE_CHECKING blocks and functions included."""
    found, left = [], [ast.parse(source)]
    while left:  # only through what has statements: expressions are most of a source
        node = left.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            found.append(node)
        for part in ("body", "orelse", "finalbody", "handlers", "cases"):
            inner = getattr(node, part, ())
            left += inner if isinstance(inner, list) else ()
    return tuple(found)


@functools.cache
def imports(source: str) -> set[str]:
    """The modules that `source` imports; `from a import b` names a and a.b."""
    names: set[str] = set()
    for node in statements(source):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        else:
            assert not node.level, "relative imports hide what is imported"
            names |= {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def reaches(source: str, *packages: str) -> set[str]:
    """What `source` imports of some packages."""
    return {n for n in imports(source) if any(n == p or n.startswith(f"{p}.") for p in packages)}


def ours(source: str) -> set[str]:
    """The modules of weft that `source` imports."""
    return imports(source) & set(MODULES)


def foreign(source: str) -> set[str]:
    """The top-level packages that `source` imports, of neither weft nor the standard library."""
    tops = {name.partition(".")[0] for name in imports(source)}
    return tops - set(sys.stdlib_module_names) - {"weft"}


def within(package: str) -> dict[str, str]:
    """The source of each module of a package."""
    return {
        name: path.read_text()
        for name, path in MODULES.items()
        if name == package or name.startswith(f"{package}.")
    }


# What a package may not import of weft; the rest of the order follows from these.
RIGHT = {
    "weft.isa": ("weft.mlir", "weft.dialects", "weft.passes", "weft.compiler", "weft.launch", "weft.tools"),
    "weft.dialects": ("weft.passes", "weft.compiler", "weft.launch", "weft.emulator", "weft.tools"),
    "weft.schedules": ("weft.passes", "weft.compiler", "weft.launch", "weft.tuning", "weft.tools"),
    "weft.passes": (
        *("weft.compiler", "weft.launch", "weft.emulator", "weft.multiply", "weft.tuning", "weft.tools"),
    ),
    "weft": ("weft.tools",),
    "weft.emulator": ("weft.mlir", "weft.dialects", "weft.passes", "weft.compiler", "weft.tools"),
}


def misplaced(package: str, sources: dict[str, str]) -> set[tuple[str, str]]:
    """The imports of a package's modules that point right."""
    return {
        (name, found)
        for name, source in sources.items()
        for found in reaches(source, *RIGHT[package])
        if not name.startswith("weft.tools")
    }


@pytest.mark.each_value(1)
@pytest.mark.parametrize("package", list(RIGHT))
def test_imports_point_left_only(package):
    assert within(package)
    assert not misplaced(package, within(package))


def test_isa_imports_the_standard_library_and_itself_alone():
    for name, source in within("weft.isa").items():
        assert not foreign(source), name
        assert all(found.startswith("weft.isa") for found in ours(source) - {"weft"}), name


def test_the_emulator_is_independent():
    """PTX text, isa, the layout algebra, files, the cache, locks and garbage are all it knows of weft,
    whatever module it goes through.
    """
    allowed = (
        *("weft.emulator", "weft.isa", "weft.layout", "weft.errors", "weft.display", "weft.system"),
        *("weft.cache.disk_cache", "weft.cache.loaded"),
    )
    for name, source in within("weft.emulator").items():
        assert all(found.startswith(allowed) for found in ours(source) - {"weft", "weft.cache"}), name
        assert foreign(source) <= {"numpy", "ml_dtypes", "llvmlite"}, name


# The emulator's layers; each may import itself and those before it.
LAYERS = (
    ("errors", "forks", "native", "records", "sources"),
    ("reading",),
    ("numerics",),
    ("memory", "watch"),
    ("running",),
    ("decoding",),
    ("instructions",),
    ("machine",),
    ("sanitizer",),
    ("compiled",),
    ("watching",),
    ("arguments", "limits", "waves"),
    ("parallel",),
    ("launch",),
    ("explore", "world"),
)


def test_the_emulator_is_layered():
    layer = {name: at for at, names in enumerate(LAYERS) for name in names}
    for module, imported in graph(within("weft.emulator")).items():
        if module != "weft.emulator":
            own = layer[module.split(".")[2]]
            assert all(layer[other.split(".")[2]] <= own for other in imported), module


def test_one_module_imports_mlir():
    assert {name for name, path in MODULES.items() if reaches(path.read_text(), *MLIR)} <= {"weft.mlir"}
    naming = {name for name, path in MODULES.items() if '"torch_mlir' in path.read_text()}
    assert naming == {"weft.ir.bindings", "weft.mlir"}


def test_llvm_and_cuda_are_imported_where_they_are_used():
    """Tools start in half a second because nothing else pulls these in."""
    users = {
        "llvmlite": {
            *("weft.compiler.codegen", "weft.host.entry", "weft.emulator.native"),
            *("weft.emulator.numerics.emit", "weft.emulator.compiled.plain_code"),
        },
        "cuda": {"weft.launch.cuda_driver", "weft.compiler.ptxas"},
    }
    for package, allowed in users.items():
        found = {name for name, path in MODULES.items() if reaches(path.read_text(), package)}
        assert {name for name in found if not name.startswith("weft.tools")} <= allowed


def graph(sources: dict[str, str]) -> dict[str, set[str]]:
    """The modules that each module imports, anywhere in it; `from a import b` counts as a.b where that is a
    module, as a otherwise.
    """
    edges: dict[str, set[str]] = {}
    for name, source in sources.items():
        imported: set[str] = set()
        for node in statements(source):
            if isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
            else:
                full = {f"{node.module}.{alias.name}" for alias in node.names}
                imported |= {each if each in sources else node.module or "" for each in full}
        edges[name] = (imported & set(sources)) - {name}
    return edges


def cycles(edges: dict[str, set[str]]) -> list[frozenset[str]]:
    """The sets of modules that import each other, directly or through others."""
    reached: dict[str, set[str]] = {}
    for start in edges:
        seen, waiting = set[str](), list(edges[start])
        while waiting:
            name = waiting.pop()
            if name not in seen:
                seen.add(name)
                waiting += edges[name]
        reached[start] = seen
    return list({frozenset(b for b in seen if a in reached[b]) for a, seen in reached.items() if a in seen})


def test_no_cycle_of_imports():
    """Imports under TYPE_CHECKING and within functions count."""
    every = cycles(graph({name: path.read_text() for name, path in MODULES.items()}))
    assert every == []


def test_a_planted_cycle_is_caught():
    sources = within("weft.emulator")
    assert cycles(graph(sources)) == []
    later = "\n\ndef late():\n    from weft.emulator.machine import Machine\n"
    sources["weft.emulator.running.barriers"] += later
    assert [
        cycle >= {"weft.emulator.machine", "weft.emulator.running.barriers"}
        for cycle in cycles(graph(sources))
    ] == [True]
    typed = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from a import b\n"
    assert cycles(graph({"a": "", "a.b": "import a.c", "a.c": typed})) == [frozenset({"a.b", "a.c"})]


def unlisted(packages: list[str]) -> set[str]:
    """The folders of Python files that an install would leave out."""
    listed = {folder(package) for package in packages}
    holding = {
        path.parent
        for top in set(PROJECT["package-dir"].values())
        for path in (ROOT / top).rglob("*.py")
        if "__pycache__" not in path.parts
    }
    return {str(path.relative_to(ROOT)) for path in holding - listed}


def test_every_folder_of_python_files_is_a_listed_package():
    assert not unlisted(PROJECT["packages"])
    assert all((folder(package) / "__init__.py").exists() for package in PROJECT["packages"])


def test_an_import_to_the_right_is_caught():
    planted = {"weft.isa.mma": "def f():\n    from weft.dialects import tile\n"}
    assert misplaced("weft.isa", planted) == {
        ("weft.isa.mma", "weft.dialects"),
        ("weft.isa.mma", "weft.dialects.tile"),
    }
    assert foreign("import numpy.linalg") == {"numpy"}
    assert reaches("import torch_mlir.ir", *MLIR)


def test_a_package_left_out_of_pyproject_is_caught():
    assert unlisted([p for p in PROJECT["packages"] if p != "weft.isa"]) == {"python/weft/isa"}


def test_launch_attributes_are_named_in_the_contract_alone():
    named = {
        name
        for name, path in MODULES.items()
        for attribute in CONTRACT
        if f'"{attribute}"' in path.read_text()
    }
    assert named == {"weft.dialects.launch_contract"}
