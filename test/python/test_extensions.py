"""Other packages add dialects, passes, candidates and schedules, by calls or by an entry point."""

import importlib
import os
import re
import shutil
import subprocess
import sys
import threading
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

import weft
from weft import dialects, extensions, mlir, passes
from weft.compiler import cache_keys
from weft.dialects import tile
from weft.dialects.schedule import AnySchedule, Schedule
from weft.errors import WeftInternalError
from weft.passes import Candidate, Pass, Predicate
from weft.passes.registry import candidates

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "extension"
sys.path.insert(0, str(ROOT / "test"))
warm_tools = importlib.import_module("warm_tools")
sys.path.pop(0)


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """Runs Python code with packages from a folder, in a process that has imported Weft."""
    folder = tmp_path_factory.mktemp("extensions")
    warm_tools.install(folder / "tools")

    def run(code: str, site: Path | None = None, **environment: str) -> str:
        path = "" if site is None else f"import sys; sys.path.insert(0, {str(site)!r})\n"
        environment = {"WEFT_CACHE_DIR": str(folder / "cache"), "CUDA_VISIBLE_DEVICES": ""} | environment
        done = subprocess.run(
            [folder / "tools" / "warm-python", "-c", path + code],
            env=os.environ | environment,
            capture_output=True,
            text=True,
            timeout=100,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    run.folder = folder  # type: ignore[attr-defined]
    return run


def installed(folder: Path, version: str | None = None, point: str = "", **files: str) -> Path:
    """A folder like `site-packages` with the example, as pip installs it; `files` replace its modules, and
    `point` its entry point.
    """
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    shutil.copytree(EXAMPLE / "weft_dp4a", folder / "weft_dp4a", ignore=shutil.ignore_patterns("__pycache__"))
    for name, text in files.items():
        path = folder / "weft_dp4a" / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    about = folder / "weft_dp4a.dist-info"
    about.mkdir()
    version = version or project["version"]
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {version}\n")
    points = project["entry-points"][extensions.GROUP]
    lines = [f"[{extensions.GROUP}]", *([point] if point else map(" = ".join, points.items()))]
    (about / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    return installed(tmp_path_factory.mktemp("site") / "packages")


# The example: an instruction, a dialect, a pass, a candidate and a kind of schedule from outside.

PRODUCT = """
import numpy as np, weft
from weft.dialects import tile
with weft.Module() as module:
    kinds = [weft.memref("?x?", element) for element in ("i8", "i8", "i32")]
    with module.func("product", kinds) as (a, b, d):
        tile.matmul(a, b, d)
kernel = weft.compile(module, arch="sm_80")
"""
RUN = """
values = np.random.default_rng(0).integers(-128, 128, (2, 50, 50), dtype=np.int8)
a, b = values[0, :, :21].copy(), values[1, :21, :11].copy()
d = np.empty((50, 11), np.int32)
kernel(a, b, d, on="emulator")
assert (d == a.astype(np.int32) @ b.astype(np.int32)).all()
print(kernel.ptx.count("dp4a.s32.s32"), kernel.ir("lower-dot").count("dot."), kernel.launch.block)
"""


def test_the_example_multiplies_and_its_kernel_is_kept(python, site):
    cache = python.folder / "kept"
    for _ in range(2):
        assert python(PRODUCT + RUN, site, WEFT_CACHE_DIR=str(cache)) == "8 0 (128, 1, 1)\n"
        assert len(list(cache.glob("llvm-*"))) == 1
    refused = PRODUCT.replace("kernel =", "try: kernel =") + "except weft.WeftError as error: print(error)"
    assert "'tile.matmul' op has no schedule for sm_80" in python(refused, WEFT_CACHE_DIR=str(cache))


def test_text_is_compiled_in_the_process_of_mlir_with_its_extensions(python, site):
    code = PRODUCT.replace("compile(module,", "compile(str(module),") + "print(kernel.ptx.count('dp4a.s32'))"
    assert python(code, site) == "8\n"


FIRST = """
import numpy as np, weft
a, b = np.ones((40, 20), np.int8), np.ones((20, 10), np.int8)
{}
assert (weft.matmul(a, b, schedule=schedule) == 20).all()
"""


@pytest.mark.parametrize("schedule", ("None", "'{dot_warps = 2}'", "DotSchedule(2)"))
def test_a_first_product_of_arrays_finds_the_schedules_of_extensions(schedule, python, site):
    line = f"from weft_dp4a.schedule import DotSchedule; schedule = {schedule}"
    python(FIRST.format(line), site)


TOOLS = """
from weft.tools import weft, weft_opt
for tool, *arguments in ([weft_opt, "--list-passes"], [weft_opt, "--show-dialects"], [weft, "doctor"],
                         [weft, "completion", "bash"], [weft, "isa"], [weft, "isa", "dp4a"],
                         [weft_opt, "--help"]):
    print("##", *arguments)
    tool.main(arguments)
"""


def test_the_tools_list_what_is_registered(python, site):
    parts = re.split(r"^## .*\n", python(TOOLS, site), flags=re.MULTILINE)[1:]
    listing, names, doctor, completion, overview, table, help_ = parts
    line = "--lower-dot                lower the dot dialect to PTX (weft-dp4a 0.1)"
    assert line in listing and line in help_
    assert ",complex,dlti,dot,emitc," in names
    what = "dialect dot, candidate dot.dp4a of tile.gemm, pass lower-dot, schedule dot_warps"
    assert f"ok       extensions weft-dp4a 0.1 ({what})" in doctor
    assert " --lower-dot " in completion
    assert re.search(r"^ ?dot +dp4a +4 +5\.0 ", overview, re.MULTILINE)
    assert "PTX   dp4a.{s32,u32}.{s32,u32}" in table


def test_the_page_shows_the_files_of_the_example():
    page = (ROOT / "docs" / "extending.md").read_text("utf-8")
    shown = dict(re.findall(r"^`([\w./]+)`:\n\n```(?:py|toml)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL))
    files = [path for path in EXAMPLE.rglob("*") if path.suffix in (".py", ".toml")]
    assert shown == {str(path.relative_to(EXAMPLE)): path.read_text("utf-8") for path in files}


# The key of the cache.

KEY = "from weft.compiler import cache_keys; print(cache_keys.lowering())"


def test_name_version_and_content_of_an_extension_are_in_the_key(python, site, tmp_path):
    source = (EXAMPLE / "weft_dp4a" / "lowering.py").read_text()
    keys = [
        python(KEY),
        python(KEY, site),
        python(KEY, installed(tmp_path / "newer", version="0.2")),
        python(KEY, installed(tmp_path / "changed", lowering=source + "\n# Other code.\n")),
        python(KEY, installed(tmp_path / "more", **{"tools/more": "# In a folder."})),
    ]
    assert len(set(keys)) == len(keys) and not any("None" in key for key in keys)
    same = tmp_path / "same"
    shutil.copytree(site, same)
    assert python(KEY, same) == keys[1]  # wherever it is installed


# Extensions with mistakes.

BROKEN = {
    "raises": ("def register():\n    1 / 0\n", r"__init__\.py:2:5: .*: ZeroDivisionError: division by zero"),
    "imports": ("import nothing_like_it\n", r"__init__\.py:1:1: .*: ModuleNotFoundError: No module named"),
    "syntax": ("def register(:\n", r"__init__\.py:1:14: .*: SyntaxError: invalid syntax"),
    "exits": ("import sys\nsys.exit(0)\n", r"__init__\.py:2:1: .*: SystemExit: 0"),
    "silent": (
        "import weft\n\ndef register():\n    raise weft.WeftError()\n",
        r"__init__\.py:4:5: .*: WeftError without a message",
    ),
    "compiles": (
        "import weft\n\ndef register():\n    weft.compile('module {}', arch='sm_80')\n",
        r"__init__\.py:4:5: .*: modules must be compiled after the extensions are loaded",
    ),
    "nameless": ("", r"entry_points\.txt:2:1: .*: AttributeError: module 'weft_dp4a' has no attrib"),
    "taken": (
        "import weft\nfrom weft.passes import Pass\n\ndef register():\n"
        "    weft.register_pass(Pass('lower-x', '', print))\n"
        "    weft.register_pass(Pass('lower-mma', '', print))\n",
        r"__init__\.py:6:5: .*: pass 'lower-mma' is registered already, by Weft",
    ),
}  # fmt: skip
TWICE = """
from weft import dialects, extensions, passes
from weft.tools import weft
for _ in range(2):
    try:
        dialects.context()
    except weft_error as error:
        print(error)
print(extensions.entries(), weft.main(["doctor"]))
""".replace("weft_error", "extensions.WeftError")


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_extension_is_named_with_its_location(kind, python, tmp_path):
    text, expected = BROKEN[kind]
    said = python(TWICE, installed(tmp_path / "site", __init__=text))
    message = re.compile(
        expected.replace(".*: ", "error: extension 'dp4a' of weft-dp4a 0.1 can't be loaded: ")
    )
    assert len(message.findall(said)) == 2, said  # each time
    assert (
        said.count("note: to go on without it, run `pip uninstall weft-dp4a`, or set WEFT_EXTENSIONS=0") == 2
    )
    assert "() 1\n" in said  # nothing stays registered
    assert "MISSING  extensions extension 'dp4a' of weft-dp4a 0.1" in said


@pytest.mark.parametrize("point", ["dp4a", "dp4a = !!!", "= weft_dp4a:register"])
def test_a_broken_entry_point_is_named_with_its_line(point, python, tmp_path):
    said = python(TWICE, installed(tmp_path / "site", point=point))
    message = (
        f"entry_points.txt:2:1: error: entry point of weft-dp4a must be NAME = MODULE:FUNCTION; got '{point}'"
    )
    assert said.count(message) == 2 and "MISSING  extensions entry point" in said, said


def test_broken_metadata_of_other_distributions_does_no_harm(python, tmp_path):
    site = installed(tmp_path / "site", __init__="def register(): pass\n")
    other = site / "other-1.dist-info"
    other.mkdir()
    (other / "METADATA").write_bytes(b"\xff\xfe")
    (other / "entry_points.txt").write_bytes(b"[console_scripts]\nno equals sign \xff\n")
    (site / "weft_dp4a.dist-info" / "METADATA").unlink()
    said = python("from weft import extensions\nprint(*extensions.loaded())", site)
    assert said == "weft_dp4a ?\n"


INTERRUPTED = """
from weft import extensions
try: extensions.load()
except KeyboardInterrupt: print(len(extensions.entries()))
print(*extensions.loaded(), len(extensions.entries()))
"""


def test_extensions_are_loaded_after_an_interrupted_attempt(python, tmp_path):
    text = (
        "import weft\nfrom weft.passes import Pass\ninterrupts = [KeyboardInterrupt]\n\ndef register():\n"
        "    weft.register_pass(Pass('mine', '', print))\n    if interrupts: raise interrupts.pop()\n"
    )
    assert python(INTERRUPTED, installed(tmp_path / "site", __init__=text)) == "0\nweft-dp4a 0.1 1\n"


def test_extensions_can_be_switched_off(python, tmp_path):
    site = installed(tmp_path / "site", __init__="def register():\n    1 / 0\n")
    said = python("from weft.tools import weft; weft.main(['doctor'])", site, WEFT_EXTENSIONS="0")
    assert "ok       extensions switched off by WEFT_EXTENSIONS=0" in said


# Registration by calls.


@pytest.fixture
def registries():
    """Forgets what a test registers."""
    yield
    for entry in extensions.entries():
        for registry in extensions._registries:
            registry.remove(entry.source)


def nothing(module):
    pass


def lowered(op):
    return op.a


@pytest.mark.usefixtures("registries")
def test_a_pass_of_a_program_runs_at_its_registered_point(patch, tmp_path):
    patch.setenv("WEFT_CACHE_DIR", str(tmp_path))
    before, seen = cache_keys.lowering(), []
    weft.register_pass(Pass("count-ops", "count operations", nothing), after="lower-mma")
    assert cache_keys.lowering() != before and not cache_keys.as_imported()
    flags = [str(element) for element in passes.elements("weft")]
    assert flags[flags.index("lower-mma") + 1] == "count-ops"
    assert [str(each) for each in passes.elements("lower-mma")] == ["lower-mma"]  # of no pipeline of Weft's
    module = mlir.parse("module {}", dialects.context())
    weft.register_pass(Pass("see", "", lambda op, x: seen.append(x), {"x": "1"}))
    passes.manager("see,see{x=2}", module.context).run(module.operation)
    assert seen == ["1", "2"]


def candidate(name: str) -> Candidate:
    return Candidate(name, 1, (), lowered)


PASSES = {
    "lower-mma": "pass 'lower-mma' is registered already, by Weft",
    "cse": "pass 'cse' is registered already, by MLIR",
    "weft": "pass 'weft' is registered already, as a pipeline of Weft",
    "run-reproducer": "pass 'run-reproducer' can't have this name: --run-reproducer is an option of weft-opt",
    "Lower_X": "pass flag must be lower-case words with '-' between them; got 'Lower_X'",
    7: "pass flag must be lower-case words with '-' between them; got 7",
}
CANDIDATES = {
    "tile.gemm": "candidate 'mma.sync m16n8k16 of tile.gemm' is registered already, by Weft",
    "tile.alloc": "op_name must be one of tile.gemm, tile.gemm_async or of another package; got tile.alloc",
    "gemm": "op_name must be an operation's name, such as tile.gemm; got 'gemm'",
}
OTHERS = {
    "a pass that isn't one": (
        lambda: weft.register_pass(nothing),
        "pass_ must be a weft.passes.Pass; got function",
    ),
    "a pass after none": (
        lambda: weft.register_pass(Pass("x", "", nothing), after="lower-mmaa"),
        "after must be a pass that the pipeline --weft runs; got 'lower-mmaa'; did you mean 'lower-mma'?",
    ),
    "a candidate that isn't one": (
        lambda: weft.register_candidate("tile.gemm", nothing),
        "candidate must be a weft.passes.Candidate; got function",
    ),
    "a candidate of two lines": (
        lambda: weft.register_candidate("tile.gemm", candidate("a\nb")),
        "candidate name must be a letter or digit, then letters, digits, spaces and any of _.:+-; "
        "got 'a\\nb'",
    ),
    "a dialect that isn't one": (
        lambda: weft.register_dialect(int),
        "dialect must be a subclass of weft.mlir.ext.Dialect; got <class 'int'>",
    ),
    "Weft's dialect": (
        lambda: weft.register_dialect(dialects.Tile),
        "dialect 'tile' is registered already, by Weft",
    ),
    "a schedule that isn't one": (
        lambda: weft.register_schedule(int, expand=nothing),
        "family must be a subclass of weft.dialects.schedule.AnySchedule; got <class 'int'>",
    ),
}
SCHEDULE = {"key": "words", "__annotations__": dict.fromkeys(("block", "stages", "group", "words"), int)}


def family(**fields):
    return dataclass(frozen=True)(type("Mine", (AnySchedule,), SCHEDULE | fields))


def schedule(**fields):
    return lambda: weft.register_schedule(family(**fields), expand=nothing)


OTHERS |= {
    "a summary of two lines": (
        lambda: weft.register_pass(Pass("x", "a\nb", nothing)),
        "pass 'x': summary must be a line of text; got 'a\\nb'",
    ),
    "a pass without a function": (
        lambda: weft.register_pass(Pass("x", "", None)),
        "pass 'x': run must be a function; got None",
    ),
    "options without defaults": (
        lambda: weft.register_pass(Pass("x", "", nothing, ["y"])),
        "pass 'x': options must be a mapping of names to defaults; got ['y']",
    ),
    "an option with a space": (
        lambda: weft.register_pass(Pass("x", "", nothing, {"a b": ""})),
        "pass 'x': names of options must be lower-case words with '-' between; got 'a b'",
    ),
    "a default that is a number": (
        lambda: weft.register_pass(Pass("x", "", nothing, {"a": 1})),
        "pass 'x': the default of option 'a' must be a text; got 1",
    ),
    "a pass that lowers one thing": (
        lambda: weft.register_pass(Pass("x", "", nothing, lowers=dialects.Tile)),
        "pass 'x': lowers must be a sequence of dialects and classes of operations; "
        "got <class 'weft.dialects.tile_types.Tile'>",
    ),
    "a pass that lowers names": (
        lambda: weft.register_pass(Pass("x", "", nothing, lowers=("tile",))),
        "pass 'x': lowers must be a sequence of dialects and classes of operations; one is 'tile'",
    ),
    "a pass after a list": (
        lambda: weft.register_pass(Pass("x", "", nothing), after=["lower-mma"]),
        "after must be a pass that the pipeline --weft runs; got ['lower-mma']",
    ),
    "a candidate of an operation with a space": (
        lambda: weft.register_candidate("dot.dot product", candidate("x")),
        "op_name must be an operation's name, such as tile.gemm; got 'dot.dot product'",
    ),
    "a priority that is a text": (
        lambda: weft.register_candidate("tile.gemm", Candidate("x", "high", (), lowered)),
        "candidate 'x': priority must be an integer; got 'high'",
    ),
    "predicates in a list": (
        lambda: weft.register_candidate("tile.gemm", Candidate("x", 1, [], lowered)),
        "candidate 'x': predicates must be a tuple; got []",
    ),
    "a predicate that isn't one": (
        lambda: weft.register_candidate("tile.gemm", Candidate("x", 1, (nothing,), lowered)),
        "candidate 'x': predicates must be instances of weft.passes.Predicate; one is function",
    ),
    "a predicate without a function": (
        lambda: weft.register_candidate("tile.gemm", Candidate("x", 1, (Predicate("y", None),), lowered)),
        "candidate 'x': a predicate must have a line of text and a function; got 'y'",
    ),
    "a candidate without a function": (
        lambda: weft.register_candidate("tile.gemm", Candidate("x", 1, (), None)),
        "candidate 'x': lower must be a function; got None",
    ),
    "the class of all dialects": (
        lambda: weft.register_dialect(mlir.ext.Dialect),
        "dialect name must be lower-case letters, digits and '_'; got None",
    ),
    "Weft's schedule": (
        lambda: weft.register_schedule(Schedule, expand=nothing),
        "schedule 'warps' is registered already, by Weft",
    ),
    "the class of all schedules": (
        lambda: weft.register_schedule(AnySchedule, expand=nothing),
        "schedule family AnySchedule: a family must be a frozen dataclass",
    ),
    "an abstract schedule": (
        schedule(),
        "schedule family Mine: a family must define chips, complaint, shared_bytes, threads",
    ),
    "a schedule without a function": (
        lambda: weft.register_schedule(Schedule, expand=None),
        "expand must be a function; got None",
    ),
    "a chooser that isn't one": (
        lambda: weft.register_schedule(Schedule, expand=nothing, chooser=nothing),
        "chooser must be a weft.schedules.choice.Chooser; got function",
    ),
}
TAKEN = {
    **{
        flag: (lambda flag=flag: weft.register_pass(Pass(flag, "", nothing)), PASSES[flag]) for flag in PASSES
    },
    **{
        op: (lambda op=op: weft.register_candidate(op, candidate("mma.sync m16n8k16")), CANDIDATES[op])
        for op in CANDIDATES
    },
    **OTHERS,
}


@pytest.mark.parametrize("what", TAKEN)
def test_what_cant_be_registered_is_refused(what):
    register, message = TAKEN[what]
    with pytest.raises(weft.WeftError) as caught:
        register()
    assert str(caught.value) == message
    assert extensions.entries() == ()


@pytest.mark.usefixtures("registries")
def test_a_second_registration_names_the_first():
    def register():
        weft.register_pass(Pass("mine", "", nothing))

    register()
    line = register.__code__.co_firstlineno + 1
    with pytest.raises(
        weft.WeftError, match=rf"pass 'mine' is registered already, by .*test_extensions.py:{line}$"
    ):
        register()


@pytest.mark.usefixtures("registries")
def test_of_many_threads_one_registers_a_name():
    refused, start = [], threading.Barrier(8)

    def register():
        start.wait()
        try:
            weft.register_pass(Pass("mine", "", nothing))
        except weft.WeftError as error:
            refused.append(error)

    threads = [threading.Thread(target=register) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == 7 and "mine" in passes.every()


@pytest.mark.usefixtures("registries")
def test_a_registered_candidate_is_asked_by_priority():
    own = passes._own_candidates()["tile.gemm"]
    predicate = Predicate("never", lambda op: "needs nothing")
    weft.register_candidate("tile.gemm", Candidate("mine", 10**6, (predicate,), lowered))
    weft.register_candidate("tile.gemm", Candidate("yours", 0, (), lowered))
    names = [each.name for each in candidates.candidates("tile.gemm", own)]
    assert names[0] == "mine" and names[-1] == "yours" and len(names) == len(own) + 2
    assert len(candidates.candidates("tile.gemm_async", ())) == 0


@pytest.mark.usefixtures("registries")
def test_a_dialect_is_in_later_contexts():
    class Late(mlir.ext.Dialect, name="late_dialect"):
        """A dialect."""

    class NopOp(dialects.InstructionOp.__mro__[1], dialect=Late, name="nop"):
        """An operation."""

    weft.register_dialect(Late)
    for _ in range(2):  # from the classes, then from bytecode
        module = mlir.parse('"late_dialect.nop"() : () -> ()', dialects.context())
        assert isinstance(module.body.operations[0], NopOp)


def fails(*_):
    raise KeyError("boom")


def leaves(*_):
    sys.exit()


MISTAKES = {
    "predicate": (
        Candidate("mine", 10**6, (Predicate("p", fails),), lowered),
        ", registered by .*failed: KeyError",
    ),
    "lower": (
        Candidate("mine", 10**6, (), fails),
        r"candidate 'mine of tile.gemm', registered by .*: KeyError: 'boom'",
    ),
    "nothing": (
        Candidate("mine", 10**6, (), nothing),
        "lowered by candidate mine, which must return a value of .*; got None",
    ),
    "another type": (
        Candidate("mine", 10**6, (), lowered),
        "mine, which must return a value of .*f32.*; got .*f16",
    ),
}


@pytest.mark.usefixtures("registries")
@pytest.mark.parametrize("kind", MISTAKES)
def test_a_candidate_that_fails_is_named(kind):
    mine, message = MISTAKES[kind]
    weft.register_candidate("tile.gemm", mine)
    with pytest.raises(weft.WeftError, match=message) as caught:
        weft.compile(product(), arch="sm_80")
    assert not isinstance(caught.value, WeftInternalError)


@pytest.mark.usefixtures("registries")
@pytest.mark.parametrize("run", [fails, leaves])
def test_a_pass_that_fails_is_named_with_its_line(run):
    weft.register_pass(Pass("mine", "", run), after="lower-rings")
    line = run.__code__.co_firstlineno + 1
    message = (
        rf"test_extensions.py:{line}:5: error: pass 'mine', registered by .*test_extensions.py:\d+, failed: "
    )
    with pytest.raises(weft.WeftError, match=message) as caught:
        weft.compile(product(), arch="sm_80")
    assert not isinstance(caught.value, WeftInternalError)


def product():
    with weft.Module() as module:
        kinds = [weft.memref("64x64", element) for element in ("f16", "f16", "f32")]
        with module.func("product", kinds) as (a, b, d):
            tile.matmul(a, b, d)
    return module


def test_a_dialect_that_cant_be_loaded_is_named():
    class Twice(mlir.ext.Dialect, name="twice"):
        """A dialect."""

    for _ in range(2):
        type(
            "NopOp", (dialects.InstructionOp.__mro__[1],), {"__module__": __name__}, dialect=Twice, name="nop"
        )
    with pytest.raises(weft.WeftError, match=r"^dialect 'twice': redefinition of symbol named 'nop'"):
        weft.register_dialect(Twice)
    assert extensions.entries() == ()


def test_help_needs_no_mlir_where_no_extension_is_installed():
    code = (
        "import sys; from weft.tools import weft_opt\n"
        "try: weft_opt.main(['--help'])\n"
        "except SystemExit: print('weft.mlir' in sys.modules)"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "False"
