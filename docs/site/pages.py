"""A hook of MkDocs: pages that aren't files in docs/, and links as the repository has them.

Pages link to any file of the repository by its relative path, as the repository's viewer needs it. On the
site, files from outside docs/ have the same paths as in the repository.
"""

import ast
import gc
import json
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
DOCS = "docs/"
OTHER_PAGES = (
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "benchmarks/README.md",
    "benchmarks/attention/README.md",
    "benchmarks/distributed/README.md",
    "benchmarks/language/README.md",
    "benchmarks/published/README.md",
)

REFERENCE = {
    "weft": "",
    "weft.language": "[The kernel language](../language.md) explains these functions by examples.",
    "weft.nn": "[Weft from PyTorch](../pytorch.md#layers) has examples.",
    "weft.torch": "[Weft from PyTorch](../pytorch.md#operators) describes the operators `torch.ops.weft`.",
    "weft.inductor": "[Weft from PyTorch](../pytorch.md#torchcompile) describes when Inductor chooses Weft.",
    "weft.jax": "[Weft from JAX](../jax.md) has examples.",
    "weft.distributed": "[Products over several GPUs](../distributed.md) has examples.",
    "weft.emulator": "[The emulator](../emulator.md) has examples.",
    "weft.reference": "Computes what kernels should compute, in NumPy.",
    "weft.dialects": "The operations of `wmma`, `mma`, `wgmma` and `tcgen05` are functions of their modules: "
    "[operations](../ops.md) lists their operands and attributes.",
    "weft.dialects.tile": "[Tile operations](../tile.md) describes what these functions build.",
    "weft.dialects.schedule": "[Schedules](../schedule.md) describes the fields.",
}
"""The modules of the Python reference, with a sentence that leads each page."""

# Modules without `__all__`.
PUBLIC = {"weft.inductor": ["enable", "disable"], "weft.dialects": ["context", "register_dialect"]}

# Modules whose names are those of their imports for type checkers, and others.
LAZY = {"weft.language": ["inf"]}

# Classes that users don't construct: their parameters are left out.
MADE_BY_WEFT = (
    "weft.Kernel",
    "weft.Program",
    "weft.Quantized",
    "weft.emulator.Report",
    "weft.emulator.Finding",
)

_LINK = re.compile(r"(\]\()([^)\s#]+)((?:#[^)\s]*)?\))")
# Code, in which `](` is no link.
_CODE = re.compile(r"^```.*?^```$|`[^`\n]+`", re.MULTILINE | re.DOTALL)


def on_startup(*, command: str, **_: Any) -> None:
    """Pages stay in memory until the end: looking for garbage takes a fifth of the time of a build."""
    if command == "build":
        gc.disable()


def on_files(files: Files, *, config: Any) -> Files:
    """Adds pages from other folders, the reference, and each file to which a page links."""
    for path in OTHER_PAGES:
        files.append(File.generated(config, path, abs_src_path=str(ROOT / path)))
    for module, lead in REFERENCE.items():
        files.append(File.generated(config, f"reference/{module}.md", content=reference(module, lead)))
    for page in list(files.documentation_pages()):
        if not page.src_uri.startswith("reference/"):
            _add_linked_files(repository_path(page.src_uri), files, config)
    return files


def _add_linked_files(page: str, files: Files, config: Any) -> None:
    for _, link, _ in _LINK.findall(_CODE.sub("", (ROOT / page).read_text("utf-8"))):
        path = target(page, link)
        if path is None or path.startswith(DOCS) or site_path(path, files):
            continue
        if (ROOT / path).is_file():
            _add_file(path, files, config)
        elif (ROOT / path).is_dir():
            files.append(File.generated(config, f"{path}/index.md", content=listing(path)))
            for each in listed(path):
                _add_file(each, files, config)


def _add_file(path: str, files: Files, config: Any) -> None:
    """Adds a file of the repository, and a page that shows it if it is a notebook."""
    if site_path(path, files):
        return
    files.append(File.generated(config, path, abs_src_path=str(ROOT / path)))
    if path.endswith(".ipynb"):
        files.append(File.generated(config, notebook_page(path), content=notebook(path)))


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Files) -> str:
    """Changes links of the repository to those of the site. MkDocs warns of links that lead nowhere."""
    source = page.file.src_uri
    if not (ROOT / repository_path(source)).exists():
        return markdown  # pages that are made here have the links of the site

    def moved(link: re.Match[str]) -> str:
        path = target(repository_path(source), link[2])
        to = None if path is None else site_path(path, files)
        return (
            link[0]
            if to is None
            else f"{link[1]}{posixpath.relpath(to, posixpath.dirname(source) or '.')}{link[3]}"
        )

    parts, at = [], 0
    for code in _CODE.finditer(markdown):
        parts += [_LINK.sub(moved, markdown[at : code.start()]), code[0]]
        at = code.end()
    return "".join([*parts, _LINK.sub(moved, markdown[at:])])


def repository_path(source: str) -> str:
    """The path in the repository of a page of the site."""
    return source if (ROOT / source).exists() else DOCS + source


def site_path(path: str, files: Files) -> str | None:
    """The path on the site of a file, notebook or folder in the repository; None if the site lacks it."""
    source = path.removeprefix(DOCS)
    shown = (notebook_page(source), source, f"{source}/index.md")
    return next((each for each in shown if files.get_file_from_path(each)), None)


def target(page: str, link: str) -> str | None:
    """The path in the repository to which a link of a page leads; None for other sites."""
    if re.match(r"[a-z]+:", link):
        return None
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), link))


def listed(folder: str) -> list[str]:
    """The source files below a folder, as paths in the repository."""
    found = sorted(path for path in (ROOT / folder).rglob("*") if path.is_file())
    return [
        str(path.relative_to(ROOT))
        for path in found
        if path.suffix in (".py", ".mlir", ".toml", ".ipynb")
        and not any(part.endswith(".egg-info") for part in path.parts)
    ]


def listing(folder: str) -> str:
    """A page with links to the files of a folder."""
    lines = [f"- [`{path}`]({posixpath.relpath(notebook_page(path), folder)})" for path in listed(folder)]
    return "\n".join([f"# {folder}", "", *lines, ""])


def notebook_page(path: str) -> str:
    """The path of the page that shows a notebook; other paths stay as they are."""
    return f"{path.removesuffix('.ipynb')}.md" if path.endswith(".ipynb") else path


def notebook(path: str) -> str:
    """A page with the cells of a notebook, without what they print."""
    cells = json.loads((ROOT / path).read_text("utf-8"))["cells"]
    texts = [
        source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```"
        for cell in cells
        if (source := "".join(cell["source"]))
    ]
    return "\n\n".join([texts[0], f"[Download this notebook]({posixpath.basename(path)})", *texts[1:], ""])


def reference(module: str, lead: str) -> str:
    """A page of the reference: what a module makes public, in the order of its `__all__`."""
    items = [item(module, name) for name in PUBLIC.get(module) or public(module)]
    return "\n\n".join([f"# {module}", lead, *items, ""])


def item(module: str, name: str) -> str:
    """What mkdocstrings replaces by the documentation of a public name."""
    options = []
    path = f"{module}.{name}"
    if path in MADE_BY_WEFT:
        options.append("merge_init_into_class: false")
    if source_of(path).exists():
        # A submodule has the same name, which mkdocstrings would find first.
        options.append(f'heading: "{path}"')
        path = f"{path}.{name}"
    if module in LAZY and name in (sources := defined(module)):
        options.append(f'heading: "{path}"')
        path = sources[name]
    lines = ["    options:", *(f"      {option}" for option in options)] if options else []
    return "\n".join([f"::: {path}", *lines])


def public(module: str) -> list[str]:
    """The names in a module's `__all__`, without importing it."""
    for each in ast.parse(source_of(module).read_text("utf-8")).body:
        targets = [ast.unparse(to) for to in each.targets] if isinstance(each, ast.Assign) else []
        if targets == ["__all__"]:
            return list(ast.literal_eval(each.value))
        if targets == ["_MODULES"] and module in LAZY:
            return sorted([*LAZY[module], *defined(module)])
    raise ValueError(f"{module} has no __all__: name what is public in PUBLIC")


def defined(module: str) -> dict[str, str]:
    """Where a module in `LAZY` has each public name from: the table of its names by module."""
    tree = ast.parse(source_of(module).read_text("utf-8"))
    (table,) = (
        each
        for each in tree.body
        if isinstance(each, ast.Assign) and ast.unparse(each).startswith("_MODULES = ")
    )
    return {
        public: f"{module}.{source}.{own or public}"
        for source, text in ast.literal_eval(table.value).items()
        for public, _, own in (each.partition("=") for each in text.split())
    }


def source_of(module: str) -> Path:
    """The file of a module."""
    base = ROOT / "python" / module.replace(".", "/")
    return base / "__init__.py" if base.is_dir() else base.with_suffix(".py")
