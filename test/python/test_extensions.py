"""Other packages add dialects, passes, candidates and schedules, by calls or by an entry point."""

import importlib
import os
import re
import shutil
import subprocess
import sys
import threading
import tomllib
from pathlib import Path

import pytest

import weft
from weft import dialects, mlir, passes
from weft.compiler import cache_keys
from weft.dialects.op import Op
from weft.passes import Candidate, Pass, Predicate, registered
from weft.passes.registry import candidates
from weft.registry import extensions

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "extension"
sys.path.insert(0, str(ROOT / "test"))
warm_tools = importlib.import_module("warm_tools")
sys.path.pop(0)


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """Runs Python code with packages from a folder, in a process that has imported Weft."""
    folder = tmp_path_factory.mktemp("extensions")

    def run(code: str, site: Path | None = None, **environment: str) -> str:
        path = "" if site is None else f"import sys; sys.path.insert(0, {str(site)!r})\n"
        environment = {"WEFT_CACHE_DIR": str(folder / "cache"), "CUDA_VISIBLE_DEVICES": ""} | environment
        done = subprocess.run(
            [warm_tools.folder() / "warm-python", "-c", path + code],
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
kernel = weft.compile(module, arch="sm_70")
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
    assert "'tile.matmul' op has no schedule for sm_70" in python(refused, WEFT_CACHE_DIR=str(cache))


def test_text_is_compiled_in_the_process_of_mlir_with_its_extensions(python, site):
    code = PRODUCT.replace("compile(module,", "compile(str(module),") + "print(kernel.ptx.count('dp4a.s32'))"
    assert python(code, site) == "8\n"


FIRST = """
import numpy as np, weft
a, b = np.ones((40, 20), np.int8), np.ones((20, 10), np.int8)
{}
assert (weft.matmul(a, b, schedule=schedule) == 20).all()
"""


@pytest.mark.each_value(2)
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
    shown = dict(
        re.findall(r"^`([\w./]+)`:\n\n```(?:py|toml|mlir)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    )
    files = [
        path for path in EXAMPLE.rglob("*") if path.suffix in (".py", ".toml") or path.parent.name == "test"
    ]
    assert shown == {str(path.relative_to(EXAMPLE)): path.read_text("utf-8") for path in files}


def test_the_lit_tests_of_the_example_pass(site, tmp_path):
    tools, beside = tmp_path / "tools", Path(sys.executable).parent
    tools.mkdir()
    program = tools / "weft_opt.py"
    program.write_text(
        f"import sys; sys.path.insert(0, {str(site)!r}); from weft.tools import weft_opt\n"
        "sys.exit(weft_opt.main(sys.argv[1:]))"
    )
    (tools / "weft-opt").write_text(f'#!/bin/sh\nexec {warm_tools.folder()}/warm-python {program} "$@"\n')
    (tools / "weft-opt").chmod(0o755)
    environment = os.environ | {"PATH": os.pathsep.join([str(tools), str(beside), os.environ["PATH"]])}
    shutil.copytree(EXAMPLE / "test", tmp_path / "test")
    run = [beside / "lit", "-v", tmp_path / "test"]
    done = subprocess.run(run, env=environment, capture_output=True, text=True, check=False, timeout=100)
    assert re.search(r"Passed: 2 ", done.stdout), done.stdout + done.stderr


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
    "nameless": ("", r"(?m)^extension 'dp4a' of weft-dp4a 0.1 can't be loaded: AttributeError: module"),
    "taken": (
        "import weft\nfrom weft.passes import Pass\n\ndef register():\n"
        "    weft.register_pass(Pass('lower-x', '', print))\n"
        "    weft.register_pass(Pass('lower-mma', '', print))\n",
        r"__init__\.py:6:5: .*: pass 'lower-mma' is registered already, by Weft",
    ),
}  # fmt: skip
TWICE = """
from weft import dialects, passes; from weft.registry import extensions
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


@pytest.mark.parametrize("point", ["dp4a", "dp4a = !!!"])
def test_a_broken_entry_point_is_named(point, python, tmp_path):
    said = python(TWICE, installed(tmp_path / "site", point=point))
    message = "entry points of weft-dp4a must be NAME = MODULE:FUNCTION"
    assert said.count(f"{message}\n") == 3 and "MISSING  extensions entry point" in said, said


def test_broken_metadata_of_other_distributions_does_no_harm(python, tmp_path):
    site = installed(tmp_path / "site", __init__="def register(): pass\n")
    other = site / "other-1.dist-info"
    other.mkdir()
    (other / "METADATA").write_bytes(b"\xff\xfe")
    (other / "entry_points.txt").write_bytes(b"[console_scripts]\nno equals sign \xff\n")
    said = python("from weft.registry import extensions\nprint(*extensions.loaded())", site)
    assert said == "weft-dp4a 0.1\n"


INTERRUPTED = """
from weft.registry import extensions
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
    seen = []
    weft.register_pass(Pass("count-ops", "count operations", nothing), after="lower-mma")
    with pytest.warns(UserWarning, match="uncached: pass 'count-ops' is registered by"):
        assert cache_keys.lowering() is None
    flags = [str(element) for element in passes.elements("weft")]
    assert flags[flags.index("lower-mma") + 1] == "count-ops"
    assert [str(each) for each in passes.elements("lower-mma")] == ["lower-mma"]  # of no pipeline of Weft's
    module = mlir.parse("module {}", dialects.context())
    weft.register_pass(Pass("see", "", lambda op, x: seen.append(x), {"x": "1"}))
    passes.manager("see,see{x=2}", module.context).run(module.operation)
    assert seen == ["1", "2"]


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
    own = registered._own_candidates()["tile.gemm"]
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

    class NopOp(Op, dialect=Late, name="nop"):
        """An operation."""

    weft.register_dialect(Late)
    for _ in range(2):  # from the classes, then from bytecode
        module = mlir.parse('"late_dialect.nop"() : () -> ()', dialects.context())
        assert isinstance(module.body.operations[0], NopOp)


def test_a_dialect_that_cant_be_loaded_is_named():
    class Twice(mlir.ext.Dialect, name="twice"):
        """A dialect."""

    for _ in range(2):
        type("NopOp", (Op,), {"__module__": __name__}, dialect=Twice, name="nop")
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


# The bindings keep neither of these functions, nor the converter: they ended the process.
CONVERSIONS = """
from weft.dialects import context
from weft.mlir import arith, ir, rewrite

def conversions():
    types, patterns = rewrite.TypeConverter(), rewrite.RewritePatternSet()
    types.add_conversion(lambda kind: ir.F32Type.get() if isinstance(kind, ir.F16Type) else kind)

    def lower(op, adaptor, types, rewriter):
        with rewriter.ip, op.location:
            rewriter.replace_op(op, [arith.constant(types.convert_type(op.results[0].type), 2.0)])

    patterns.add_conversion("a.b", lower, types)
    return patterns.freeze()

with context() as known, ir.Location.unknown():
    known.allow_unregistered_dialects = True
    module, target = ir.Module.parse('%0 = "a.b"() : () -> f16'), rewrite.ConversionTarget()
    target.add_legal_dialect("arith")
    target.add_illegal_op("a.b")
    rewrite.apply_partial_conversion(module.operation, target, conversions())
    print("constant 2.000000e+00 : f32" in str(module))
"""


def test_conversion_patterns_keep_the_functions_that_they_call(python):
    assert python(CONVERSIONS) == "True\n"
