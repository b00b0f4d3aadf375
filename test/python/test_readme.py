"""The documentation is correct: its Python runs, and its commands print what it shows."""

import importlib
import os
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

import weft
from weft.dialects.schedule import FAMILIES, Types
from weft.schedules import mma_sync

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "test"))
warm_tools = importlib.import_module("warm_tools")
sys.path.pop(0)
DOCS = ROOT / "docs"
PAGES = (ROOT / "README.md", *sorted(DOCS.glob("*.md")), *sorted(DOCS.glob("performance/*.md")))
# Names of values and registers, which any change before them renumbers.
VALUE = re.compile(r"%[\w-]+(:\d+)?(#\d+)?")


def blocks(page, kind):
    return re.findall(rf"^```{kind}\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)


# Pages whose examples need a framework, and go on where the ones above them ended.
FRAMEWORKS = {
    "attention": ("jax", "torch"),
    "int4": ("torch",),
    "jax": ("jax", "flatbuffers"),
    "pytorch": ("torch",),
    "training": ("torch",),
}
SLOW = ("attention", "training")  # of them
# Pages whose examples go on where the ones above them ended, and need a file: their source is read.
CONTINUED = {"language": (), "triton": ("torch",)}  # each with the framework that it needs


def cases(kind):
    return [
        pytest.param(block, id=f"{page.stem}-{number}")
        for page in PAGES
        if page.stem not in FRAMEWORKS and page.stem not in CONTINUED
        for number, block in enumerate(blocks(page, kind), 1)
    ]


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    """A folder with examples and benchmarks, and an environment with the tools of `warm_tools.py`; no GPU."""
    folder = tmp_path_factory.mktemp("reader")
    for name in ("examples", "benchmarks"):
        (folder / name).symlink_to(ROOT / name)
    tools, beside = warm_tools.folder(), Path(sys.executable).parent
    path = os.pathsep.join([str(tools), str(beside), os.environ["PATH"]])
    place = {"PATH": path, "WEFT_CACHE_DIR": str(folder / "cache"), "CUDA_VISIBLE_DEVICES": ""}
    return folder, os.environ | place


def run(command, reader):
    """Runs a command as a reader would and returns what it prints."""
    folder, environment = reader
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr}"
    return done.stdout


def shell(line, reader):
    return run(["bash", "-o", "pipefail", "-c", line], reader)


def missing(excerpt, output):
    """The first line of an excerpt that the output lacks after those before it; … stands for anything."""
    lines = iter([VALUE.sub("%", line).strip() for line in output.splitlines()])
    for shown in excerpt:
        parts = VALUE.sub("%", shown).strip().split("…")
        pattern = re.compile(".*".join(map(re.escape, parts)))
        if any(parts) and not any(pattern.fullmatch(line) for line in lines):
            return shown
    return None


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_workers_of_warm_programs_are_forks_that_answer_and_end(reader):
    code = """
from pathlib import Path
from weft.compiler import codegen
codegen.start()
pid = codegen._worker.process.pid
print(Path(f"/proc/{pid}/status").read_text().split("PPid:")[1].split()[0] == str(__import__("os").getpid()))
print(Path(f"/proc/{pid}/cmdline").read_bytes() == Path("/proc/self/cmdline").read_bytes())
print(codegen.to_ptx("define void @f() { ret void }", "sm_80", (7, 0)).ptx.count(".func"), pid)
"""
    *said, answered, pid = run(["warm-python", "-c", code], reader).split()
    assert said == ["True", "True"] and int(answered) >= 1
    assert not Path(f"/proc/{pid}").exists()


@pytest.mark.each_value(6)
@pytest.mark.parametrize("code", cases("python"))
def test_python_examples_run(code, reader):
    run(["warm-python", "-c", code], reader)


@pytest.mark.cpu_seconds(30)  # compilers of frameworks take most of it
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page.stem, marks=pytest.mark.slow if page.stem in SLOW else ())
        for page in PAGES
        if page.stem in FRAMEWORKS
    ],
)
def test_examples_of_a_framework_run_from_the_top(page, reader):
    for package in FRAMEWORKS[page.stem]:
        pytest.importorskip(package)
    run([sys.executable, "-c", "\n".join(blocks(page, "python"))], reader)


@pytest.mark.parametrize(
    ("name", "count"),
    [("language", 6), pytest.param("language", None, marks=pytest.mark.slow), ("triton", None)],
)
def test_examples_that_continue_run_from_a_file(name, count, reader, tmp_path):
    """All examples of a page, or the first ones."""
    for package in CONTINUED[name]:
        pytest.importorskip(package)
    program = tmp_path / "examples.py"
    program.write_text("\n".join(blocks(DOCS / f"{name}.md", "python")[:count]))
    run(["warm-python", str(program)], reader)


PROGRAMS = [case for case in cases("mlir") if "\nfunc.func" in f"\n{case.values[0]}"]


@pytest.mark.each_value(1)
@pytest.mark.sampled(3)
@pytest.mark.parametrize("text", PROGRAMS)
def test_programs_compile(text):
    blackwell = "f4E2M1FN" in text or "scale_block" in text
    arch, instruction = ("sm_100a", "tcgen05.mma") if blackwell else ("sm_90a", "wgmma.mma_async")
    assert instruction in weft.compile(text, arch=arch).ptx


# test_packaging.py checks the commands that install Weft.
COMMANDS = [
    line
    for page in (PAGES[0], *(DOCS / f"{name}.md" for name in ("index", "tools", "predict", "host")))
    for block in blocks(page, "sh")
    for line in block.replace("\\\n", "").splitlines()
    if not line.startswith(("scripts/", ". .venv/"))
]


@pytest.mark.each_value(5)
@pytest.mark.parametrize("line", dict.fromkeys(COMMANDS))
def test_commands_that_need_no_gpu_work(line, reader):
    assert shell(line, reader)


WALKTHROUGHS = ("walkthrough.md", "walkthrough-sm_90a.md", "walkthrough-sm_100a.md", "pairs.md")


@pytest.mark.each_value(1)
@pytest.mark.parametrize("page", WALKTHROUGHS)
def test_the_walkthrough_shows_what_its_commands_print(page, reader):
    for block in blocks(DOCS / page, "console"):
        for step in block.removeprefix("$ ").split("\n$ "):
            line, *excerpt = step.splitlines()
            lacking = missing(excerpt, shell(line, reader))
            assert lacking is None, f"'{line}' doesn't print: {lacking}"


def test_a_wrong_excerpt_is_found():
    output = "a %12 = add\nb\nc %x:2 = for\n"
    assert missing(["a %3 = add", "…", "c … = for"], output) is None
    assert missing(["a %3 = sub"], output) == "a %3 = sub"
    assert missing(["b", "a %3 = add"], output) == "a %3 = add"


def test_the_walkthrough_begins_with_the_example():
    (block,) = blocks(DOCS / "walkthrough.md", "mlir")
    assert (ROOT / "examples" / "matmul.mlir").read_text("utf-8").endswith(block)


def test_the_page_on_schedules_has_all_of_them_in_order():
    shown = re.findall(r"^\| (block .*?) \| (\d+) bytes \|", (DOCS / "schedule.md").read_text(), re.MULTILINE)
    schedules, types = (
        (
            mma_sync.LARGE,
            mma_sync.MEDIUM,
            mma_sync.SMALL,
            mma_sync.NARROW,
            mma_sync.LIGHT,
            mma_sync.DOUBLE,
            mma_sync.DOUBLE_LIGHT,
            mma_sync.PROMOTED_COLUMNS,
        ),
        Types("f16", "f16", "f32"),
    )
    assert shown == [(str(schedule), str(schedule.shared_bytes(types))) for schedule in schedules]


def test_the_page_on_schedules_has_all_fields():
    named = re.findall(r"^\| `(\w+)` \|", (DOCS / "schedule.md").read_text("utf-8"), re.MULTILINE)
    assert set(named) == {field.name for kind in FAMILIES for field in fields(kind)}


def anchors(page):
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_between_pages_lead_somewhere():
    for page in (*PAGES, ROOT / "CONTRIBUTING.md", *(ROOT / "benchmarks").glob("**/README.md")):
        for path, anchor in re.findall(r"\]\(([^)#:\s]*)(?:#([^)\s]+))?\)", page.read_text("utf-8")):
            target = page.parent / path if path else page
            assert target.exists(), f"{page.name}: {path}"
            assert not anchor or anchor in anchors(target), f"{page.name}: {path}#{anchor}"


def unlisted(index):
    """The pages that a text doesn't link to. Those in a folder are linked from the folder's own index."""
    pages = [path.name for path in DOCS.glob("*.md")] + [
        path.relative_to(DOCS).as_posix() for path in DOCS.glob("*/index.md")
    ]
    return [page for page in sorted(pages) if page != "index.md" and f"]({page})" not in index]


def test_the_index_lists_all_pages():
    index = (DOCS / "index.md").read_text("utf-8")
    assert unlisted(index) == []
    assert unlisted(index.replace("](isa/index.md)", "]()")) == ["isa/index.md"]


def test_the_glossary_has_each_term_once_in_order():
    text = (DOCS / "glossary.md").read_text("utf-8")
    tables = [re.findall(r"^\| (?!term )([^|]+) \| ", part, re.MULTILINE) for part in text.split("\n## ")[1:]]
    assert all(tables)
    for terms in tables:
        assert terms == sorted(terms, key=lambda term: term.lower().replace("-", " "))
    every = [term for terms in tables for term in terms]
    assert len(set(every)) == len(every)


def absent(page, source):
    """The messages in the first column of a page's tables of which a part isn't in the source."""
    shown = re.findall(
        r"^\| (?:an internal error with )?`([^`]*…[^`]*|[^`]* [^`]*)`[^|]* \|", page, re.MULTILINE
    )
    assert len(shown) >= 20
    return [each for each in shown if not all(part.strip() in source for part in each.split("…"))]


def test_messages_of_the_page_on_troubleshooting_are_those_of_the_code():
    page = (DOCS / "troubleshooting.md").read_text("utf-8")
    files = (
        path
        for name in ("python/weft", "dialects", "passes", "tools")
        for path in (ROOT / name).rglob("*.py")
    )
    # A message may be divided among lines.
    source = re.sub(r'"\s+f?"', "", "".join(path.read_text("utf-8") for path in files))
    assert absent(page, source) == []
    assert absent(page.replace("no warp can continue", "no warp goes on"), source) == [
        "deadlock: no warp goes on"
    ]
