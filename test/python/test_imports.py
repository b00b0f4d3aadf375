"""Imports point one way, over all packages: see ORDER. The emulator imports only isa and layout."""

import ast
import functools
import re
import sys
import tomllib
from pathlib import Path

import pytest

import weft
from weft import passes
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


_IN_STRINGS = re.compile(
    r"""["'](?P<name>weft(?:\.\w+)+)(?::\w+)?["']|["';] *(?:from|import) +(?P<code>weft[.\w]*)"""
)


@functools.cache
def in_strings(source: str) -> set[str]:
    """The modules of weft whose names `source` has in strings, alone or in code for another process."""
    names = {match["name"] or match["code"] for match in _IN_STRINGS.finditer(source)}
    return names & set(MODULES) - {"weft"}


@functools.cache
def imports(source: str) -> set[str]:
    """The modules that `source` imports or names in strings; `from a import b` names a and a.b."""
    names = set(in_strings(source))
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


def sources_of_all() -> dict[str, str]:
    """The source of each module."""
    return {name: path.read_text() for name, path in MODULES.items()}


def within(package: str) -> dict[str, str]:
    """The source of each module of a package."""
    return {
        name: path.read_text()
        for name, path in MODULES.items()
        if name == package or name.startswith(f"{package}.")
    }


ORDER = (
    *("errors", "version", "display", "system", "isa", "layout", "cache", "emulator", "registry", "ir"),
    *("target", "dialects", "construction", "schedules", "passes", "compiler", "launch", "host", "language"),
    *("multiply", "attend", "int4", "torch", "distributed", "jax", "nn", "inductor", "weft", "reference"),
    *("bench", "tuning", "tools"),
)
"""The packages and loose modules of weft; each may import itself and those before it. `weft` is the package's
own `__init__`, which hands the functions of all before it on to users.
"""
HOMES = {"mlir": "ir"}
"""Loose modules that belong to a package."""


def package_of(module: str) -> str:
    """The package of a module, as ORDER names it."""
    name = module.split(".")[1] if "." in module else module
    return HOMES.get(name, name)


def climbs(edges: dict[str, set[str]]) -> set[tuple[str, str]]:
    """The imports of packages that come later in ORDER: the importing and the imported module."""
    height = {name: at for at, name in enumerate(ORDER)}
    return {
        (module, other)
        for module, imported in edges.items()
        for other in imported
        if height[package_of(other)] > height[package_of(module)]
    }


def test_packages_import_only_those_before_them():
    assert {package_of(module) for module in MODULES} == set(ORDER)
    assert not climbs(graph(sources_of_all()))


@pytest.mark.parametrize(
    "planted",
    [
        "def f():\n    from weft.torch import product\n",
        "if TYPE_CHECKING:\n    import weft.torch.products\n",
        'f = import_module("weft.torch.products").product\n',
        'TABLE = {"f": "weft.torch.products:product"}\n',
        'run([sys.executable, "-c", "import sys; from weft.torch.products import product"])\n',
        "from weft import matmul\n",
    ],
)
def test_a_planted_climb_is_caught(planted):
    sources = sources_of_all()
    sources["weft.launch.runtime"] += planted
    assert {module for module, _ in climbs(graph(sources))} == {"weft.launch.runtime"}


COMPUTED = {
    *("weft.mlir", "weft.ir.bindings"),  # modules of MLIR's distribution
    "weft.system.late_imports",  # names that imports under TYPE_CHECKING state, too
    *("weft.passes.expand_matmul", "weft.tools.start"),  # strings of the same file
    "weft.tools.spawned",  # tools
}
"""Modules that import by a name that is computed, and which."""


def computed(source: str) -> bool:
    """Whether `source` imports by a name that isn't a string, or is a formatted one."""
    if "import_module" not in source and "__import__" not in source:
        return False
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    return any(
        getattr(call.func, "attr", getattr(call.func, "id", "")) in ("import_module", "__import__")
        and not isinstance(call.args[0], ast.Constant)
        for call in calls
    )


def test_computed_names_are_imported_only_where_the_order_holds_otherwise():
    assert {name for name, source in sources_of_all().items() if computed(source)} <= COMPUTED
    assert computed('import_module(f"weft.{name}")')


@pytest.mark.parametrize("package", [weft, passes])
def test_names_imported_at_first_use_are_those_of_type_checkers(package):
    """So the imports above hold for them."""
    source = MODULES[package.__name__].read_text()
    stated = {
        alias.name: node.module
        for node in statements(source)
        if isinstance(node, ast.ImportFrom) and node.col_offset
        for alias in node.names
        if alias.name in package.__all__
    }
    lazy = getattr(package, "_LAZY", dict.fromkeys(package.__all__, "registered"))
    assert stated == {name: f"{package.__name__}.{module}" for name, module in lazy.items()}


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
    ("errors", "native", "records"),
    ("reading",),
    ("numerics",),
    ("memory", "watch"),
    ("running",),
    ("decoding",),
    ("sanitizer",),
    ("compiled",),
    ("instructions",),
    ("machine",),
    ("watching",),
    ("arguments", "waves"),
    ("parallel",),
    ("launch",),
    ("explore", "world"),
)


def test_the_emulator_is_layered():
    layer = {name: number for number, names in enumerate(LAYERS) for name in names}
    modules = graph(within("weft.emulator"))
    assert set(layer) == {module.split(".")[2] for module in modules if module != "weft.emulator"}
    for module, imported in modules.items():
        if module != "weft.emulator":
            own = layer[module.split(".")[2]]
            assert all(layer[other.split(".")[2]] <= own for other in imported), module


def test_one_module_imports_mlir():
    assert {name for name, path in MODULES.items() if reaches(path.read_text(), *MLIR)} <= {"weft.mlir"}
    naming = {name for name, path in MODULES.items() if '"torch_mlir' in path.read_text()}
    assert naming == {"weft.ir.bindings", "weft.mlir", "weft.system.locks"}


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
    """The modules that each module imports, anywhere in it, or names in strings, unless they contain it;
    `from a import b` counts as a.b where that is a module, as a otherwise.
    """
    edges: dict[str, set[str]] = {}
    for name, source in sources.items():
        imported = {other for other in in_strings(source) if not f"{name}.".startswith(f"{other}.")}
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
    """Imports under TYPE_CHECKING, within functions and by strings count."""
    every = cycles(graph(sources_of_all()))
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


def test_an_import_of_another_library_is_caught():
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
