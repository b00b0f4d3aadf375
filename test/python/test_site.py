"""The documentation as a site: it builds without a warning, and has what the repository's viewer shows."""

import fcntl
import functools
import hashlib
import importlib.util
import json
import os
import pickle
import re
import shutil
import subprocess
import sys
from collections import Counter
from html.parser import HTMLParser
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import unquote, urlsplit

import pytest
from markdown_it import MarkdownIt

import weft

markdown = pytest.importorskip("markdown", reason="needs MkDocs: pip install 'weft[docs]'")
pytest.importorskip("material", reason="needs MkDocs: pip install 'weft[docs]'")
pytest.importorskip("mkdocstrings", reason="needs MkDocs: pip install 'weft[docs]'")

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "docs" / "site"
BLOCKS = {"h1", "h2", "h3", "h4", "ul", "ol", "li", "table", "th", "td", "pre", "blockquote", "img"}


class Page(HTMLParser):
    """The tags, identifiers and links of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.ids, self.links = Counter(), set(), set()
        self.feed(text)

    def found(self):
        return {"tags": self.tags, "ids": self.ids, "links": self.links}

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.tags[tag] += 1
        self.ids.add(found.get("id"))
        self.links |= {found[name] for name in ("href", "src") if found.get(name)}


# Files of these aren't on the site; a page may link to one below test/, whose name counts then.
NOT_SHOWN = {"build", "dist", "node_modules", "test"}
KEPT = ROOT / "build" / "tested_site"


@functools.cache
def installed():
    return sorted(f"{each.name} {each.version}" for each in metadata.distributions())


def inputs(root):
    """A digest of what decides about the site: files, installed packages, and how it is read here."""
    digest = hashlib.sha256("\n".join([sys.version, *installed()]).encode())
    digest.update(Path(__file__).read_bytes())
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(each for each in folders if each[0] != "." and not each.startswith("__"))
        within = Path(folder).relative_to(root)
        for name in sorted(each for each in files if each[0] != "." and not each.endswith(".pyc")):
            digest.update(f"{within / name}\0".encode())
            if not NOT_SHOWN & set(within.parts):
                digest.update(hashlib.sha256((Path(folder) / name).read_bytes()).digest())
        folders[:] = [each for each in folders if each not in NOT_SHOWN - {"test"}]
    return digest.hexdigest()


@pytest.fixture(scope="module")
def built():
    """The folder of the site, and the messages of MkDocs. The site of the last run is used again if what it
    was made of is the same. Processes share it.
    """
    KEPT.mkdir(parents=True, exist_ok=True)
    with (KEPT / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        into = KEPT / inputs(ROOT)
        log = into.with_suffix(".log")
        if not log.exists():
            for old in KEPT.iterdir():
                if old.is_dir():
                    shutil.rmtree(old)
                elif old.name != "lock":
                    old.unlink()
            command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", into]
            environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
            done = subprocess.run(
                command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
            )
            said = f"{done.stdout}{done.stderr}exit status {done.returncode}\n"
            if done.returncode:
                return into, said.splitlines()
            log.write_text(said)
    return into, [line for line in log.read_text().splitlines() if not line.startswith("INFO ")]


@pytest.fixture(scope="module")
def pages(built):
    parsed = built[0].with_suffix(".pickle")
    if not parsed.exists():
        found = {
            path.relative_to(built[0]).as_posix(): Page(path.read_text("utf-8"))
            for path in built[0].rglob("*.html")
        }
        whole = parsed.with_suffix(f".{os.getpid()}")
        whole.write_bytes(pickle.dumps({name: page.found() for name, page in found.items()}))
        whole.replace(parsed)
    return {name: SimpleNamespace(**page) for name, page in pickle.loads(parsed.read_bytes()).items()}


@pytest.fixture(scope="module")
def hook():
    """The module docs/site/pages.py."""
    spec = importlib.util.spec_from_file_location("pages", SITE / "pages.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_it_builds_without_a_warning(built):
    assert built[1] == ["exit status 0"], "\n".join(built[1])


def test_another_site_is_built_if_a_file_or_a_name_changes(tmp_path):
    for name in ("docs/a.md", "python/weft/b.py", "test/c.py", "build/d", ".git/e", "docs/__pycache__/f.pyc"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("before")
    keys = [inputs(tmp_path)]
    for ignored in ("test/c.py", "build/d", ".git/e", "docs/__pycache__/f.pyc"):
        (tmp_path / ignored).write_text("after")
        assert inputs(tmp_path) == keys[0], ignored
    for counts in ("docs/a.md", "python/weft/b.py"):
        (tmp_path / counts).write_text("after")
        keys.append(inputs(tmp_path))
    (tmp_path / "test/c.py").rename(tmp_path / "test/other.py")
    keys.append(inputs(tmp_path))
    assert len(set(keys)) == 4


def lost(page, pages, files):
    """The links of a page that lead nowhere on the site."""
    found = set()
    for link in pages[page].links:
        parts = urlsplit(link)
        if parts.scheme or link.startswith("/"):
            continue
        path = os.path.normpath(Path(page).parent / unquote(parts.path)) if parts.path else page
        if parts.path.endswith("/") or path == ".":
            path = os.path.normpath(f"{path}/index.html")
        if path not in files or (parts.fragment and unquote(parts.fragment) not in pages[path].ids):
            found.add(link)
    return found


@pytest.mark.slow
def test_all_links_lead_somewhere(built, pages):
    files = {path.relative_to(built[0]).as_posix() for path in built[0].rglob("*") if path.is_file()}
    assert {page: lost(page, pages, files) for page in pages if lost(page, pages, files)} == {}
    wrong = {"404.html": Page('<a href="python/#nothing"><a href="nowhere.md"><a href="python/#streams">')}
    assert lost("404.html", pages | wrong, files) == {"python/#nothing", "nowhere.md"}


@pytest.mark.slow
def test_pages_load_nothing_from_other_servers(built):
    for path in built[0].rglob("*.html"):
        loaded = re.findall(
            r'<(?:script|img|link|iframe)\b[^>]*(?:src|href)="(https?:[^"]*)"', path.read_text("utf-8")
        )
        assert loaded == [], path


def source_pages():
    return sorted(
        path for path in (*ROOT.glob("docs/**/*.md"), ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md")
    )


def blocks(html):
    return {tag: count for tag, count in Page(html).tags.items() if tag in BLOCKS}


def content(path, built):
    """The text of a page of the site, without navigation."""
    source = path.relative_to(ROOT / "docs" if path.is_relative_to(ROOT / "docs") else ROOT)
    folder = source.parent if source.stem in ("index", "README") else source.with_suffix("")
    html = (built[0] / folder / "index.html").read_text("utf-8")
    return html[html.index("<article") : html.index("</article>")]


def commonmark(text):
    """A page as the repository's viewer shows it."""
    return MarkdownIt("commonmark").enable("table").render(text)


@pytest.mark.slow
def test_pages_have_the_blocks_of_commonmark(built):
    """Python-Markdown, which MkDocs uses, has other rules for lists, tables and code."""
    for path in source_pages():
        assert blocks(content(path, built)) == blocks(commonmark(path.read_text("utf-8"))), path


def test_a_list_that_python_markdown_does_not_see_is_noticed():
    text = "A paragraph\n- a\n- b\n"
    assert blocks(markdown.markdown(text)) != blocks(commonmark(text))


@pytest.mark.slow
def test_the_reference_has_all_that_is_public(pages, hook):
    for module in hook.REFERENCE:
        ids = pages[f"reference/{module}/index.html"].ids
        paths = [
            hook.item(module, name).split()[1] for name in hook.PUBLIC.get(module) or hook.public(module)
        ]
        assert [path for path in paths if path not in ids] == [], module
    assert hook.public("weft") == weft.__all__


@pytest.mark.slow
def test_a_function_is_not_taken_for_the_module_of_its_name(built, hook):
    assert hook.item("weft.nn", "convert").split()[1] == "weft.nn.convert.convert"
    text = (built[0] / "reference" / "weft.nn" / "index.html").read_text("utf-8")
    assert re.search(r'<h2 id="weft.nn.convert.convert"[^>]*>\s*weft.nn.convert\s', text)


@pytest.mark.slow
def test_mlir_and_output_have_colors(built):
    page = (built[0] / "walkthrough" / "index.html").read_text("utf-8")
    assert '<span class="k">"tile.matmul"</span>' in page
    assert '<span class="gp">$ </span>' in page
    assert not re.search('<span class="gp">%', page), "a value of MLIR is no prompt"


@pytest.mark.slow
def test_notebooks_are_pages_and_files(built, pages):
    folder = built[0] / "examples" / "notebooks"
    for path in (ROOT / "examples" / "notebooks").glob("*.ipynb"):
        page = pages[f"examples/notebooks/{path.stem}/index.html"]
        assert f"../{path.name}" in page.links
        assert (folder / path.name).read_bytes() == path.read_bytes()
        code = [cell for cell in json.loads(path.read_text("utf-8"))["cells"] if cell["cell_type"] == "code"]
        assert page.tags["pre"] == len(code)
    assert "examples/notebooks/layouts/" in pages["index.html"].links


@pytest.mark.slow
def test_search_finds_what_pages_and_docstrings_say(built):
    index = json.loads((built[0] / "search" / "search_index.json").read_text("utf-8"))["docs"]
    found = {each["location"] for each in index if "wgmma" in each["text"] or "wgmma" in each["title"]}
    assert {"walkthrough-sm_90a/", "isa/wgmma/#wgmmamma_async"} <= found
    assert any(each["location"] == "reference/weft/#weft.matmul" for each in index)


def test_links_are_those_of_the_repository(hook):
    assert hook.target("docs/python.md", "../benchmarks/README.md") == "benchmarks/README.md"
    assert hook.target("docs/isa/mma.md", "../ops.md") == "docs/ops.md"
    assert hook.target("docs/python.md", "https://example.com/x") is None
    assert hook.repository_path("python.md") == "docs/python.md"
    assert hook.repository_path("benchmarks/README.md") == "benchmarks/README.md"
