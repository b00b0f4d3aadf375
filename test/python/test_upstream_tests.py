"""Upstream's own tests: weft-opt tells the mistakes in them as MLIR does, and judges announced diagnostics as
the wheel's own mlir-opt, and its programs for GPUs run.

Upstream's files aren't part of this repository. WEFT_LLVM is a checkout of LLVM, at the commit that
`weft doctor` prints or near it. Where its text announces other diagnostics than the wheel gives, the wheel
counts.
"""

import contextlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from weft import mlir
from weft.errors import Diagnostic, Location
from weft.mlir import ir
from weft.tools import verify_diagnostics

ROOT = Path(__file__).parents[2]
OWN = ROOT / "test" / "tools" / "opt-upstream-invalid.mlir"
INTEGRATION = "mlir/test/Integration/GPU/CUDA"
# Of others, the emulator reports mistakes, such as shared memory that is read before all have written it.
PROGRAMS = (
    *("async", "multiple-all-reduce", "printf", "shuffle", "two-modules", "TensorCore/wmma-matmul-f16"),
    *("TensorCore/wmma-matmul-f32", "TensorCore/sm80/wmma-matmul-f64"),
)
FOLDERS = ("Conversion/NVVMToLLVM", "Dialect/LLVMIR", "Dialect/NVGPU", "Target/LLVMIR")
WEFT, WEFT_OPT, FILECHECK = (
    str(Path(sys.executable).with_name(tool)) for tool in ("weft", "weft-opt", "filecheck")
)
PRINTED = re.compile(r"^(?:\S+?:(\d+):(\d+): |weft-opt: )?(error|warning|note|remark): (.*)$", re.MULTILINE)
ONE = "func.func @a(%a: i32) -> i64 { return %a : i32 }"
TWO = f"{ONE} {ONE.replace('@a', '@b')}"
JUDGED = (
    # Each announcement is met by any number of diagnostics, each diagnostic by the first announcement.
    "// expected-error@+1 {{type of return}}\n" + TWO,
    "// expected-error@+2 {{type of}}\n// expected-error@+1 {{type of}}\n" + ONE,
    "// expected-error@+2 {{type of}}\n// expected-error@+1 {{@b}}\n" + TWO,
    "// expected-error@+2 {{@b}}\n// expected-error@+1 {{type of}}\n" + TWO,
    # Another kind, line, file or text.
    "// expected-warning@+2 {{type of}}\n// expected-note@+1 {{type of}}\n" + ONE,
    "// expected-warning@+2 {{type of}}\n// expected-error@+1 {{type of}}\n" + ONE,
    "// expected-error@above {{type of}}\n" + ONE,
    "// expected-error@below {{type of}}\n\n" + ONE,
    "// expected-error@+1 {{type of}} and more\n" + ONE,
    "// expected-error@+1 {{type of}}\n" + ONE.replace("i32 }", 'i32 loc("other.mlir":7:1) }'),
    "// expected-error@unknown {{type of}}\n" + ONE.replace("i32 }", "i32 loc(unknown) }"),
    "// expected-error@+2 {{type of}}\n// expected-error-re@below {{type {{(of|by)}} {{r[a-z]+}}}}\n" + ONE,
    # Regular expressions that are none.
    "// expected-error-re@+1 {{type {{[of}} return}}\n" + ONE,
    "// expected-error-re@+1 {{type {{of return}}\n" + ONE,
    "// expected-error-re@+1 {{{{a{99999999999} }}}}\n" + ONE,
    "// expected-error-re@+1 {{{{[[:alpha:]]+}} of}}\n" + ONE,
    # What is fine.
    "func.func @fine() { return }\n// expected-note@above {{fine}}",
    ONE + " // expected-error {{type of}}",
    "//expected-error   @+2   {{undeclared}}\nfunc.func @a() -> i64 {\n  return %b : i64\n}",
)


def rows(text: str) -> list[tuple[str, ...]]:
    """Line, column, kind and message of each diagnostic, without the notes that print an operation."""
    return sorted(each for each in PRINTED.findall(text) if not each[3].startswith("see current operation"))


def printed(command: list[str], text: Path) -> list[tuple[str, ...]]:
    """The diagnostics that a tool prints of the chunks of a file."""
    done = subprocess.run(
        [*command, str(text), "--split-input-file"], capture_output=True, text=True, check=False
    )
    said = rows(done.stderr)
    assert done.returncode == any(kind == "error" for _, _, kind, _ in said)
    return said


def test_announced_diagnostics_are_judged_as_by_the_wheels_own_mlir_opt(tmp_path: Path) -> None:
    text = tmp_path / "judged.mlir"
    text.write_text("\n// -----\n".join(JUDGED))
    libraries = Path(sys.modules[f"{mlir.DISTRIBUTION}.ir"].__file__ or "").parent / "_mlir_libs"
    (mlir_opt,) = libraries.glob("*-opt")
    regex = re.compile("(invalid regex: )?(brackets|found start|invalid rep|the rep|unterm).*")
    weft, own = (
        [
            (*place, regex.sub("invalid", said))
            for *place, said in printed([tool, "--verify-diagnostics"], text)
        ]
        for tool in (WEFT_OPT, str(mlir_opt))
    )
    assert weft == own and len(weft) > 10


def told(text: str, name: str, pipeline: str) -> list[Diagnostic]:
    """What MLIR says of a module, without Weft."""
    said = []

    def hear(diagnostic: ir.DiagnosticInfo) -> bool:
        position = re.search(r'"-":(\d+):(\d+)', str(diagnostic.location))
        location = Location(name, int(position[1]), int(position[2])) if position else None
        said.append(Diagnostic(diagnostic.message, location, diagnostic.severity.name.lower()))
        return all(hear(note) for note in diagnostic.notes)

    with ir.Context() as context:
        context.emit_error_diagnostics = True
        handler = context.attach_diagnostic_handler(hear)
        with contextlib.suppress(ir.MLIRError):
            mlir.PassManager.parse(pipeline).run(ir.Module.parse(text).operation)
        handler.detach()
    return said


def compare(file: Path) -> int:
    """Holds weft-opt to MLIR on each chunk of a file, and returns the number of chunks."""
    text = file.read_text()
    passes = re.findall(r"\s--?(convert-[\w-]+)", text.partition("RUN:")[2].split("\n")[0])
    pipeline = f"builtin.module({','.join(passes)})"
    said, complaints, chunks, above = "", "", text.split("// -----"), ""
    for chunk in chunks:
        diagnostics = told(above + chunk, str(file), pipeline)
        said += "".join(f"{each}\n" for each in diagnostics)
        unmet = verify_diagnostics.verify(diagnostics, above + chunk, str(file))
        complaints += "".join(f"{each}\n" for each in unmet)
        above += "\n" * chunk.count("\n")
    command = [WEFT_OPT, f"--pass-pipeline={pipeline}"]
    assert printed(command, file) == rows(said), file
    assert printed([*command, "--verify-diagnostics"], file) == rows(complaints), file
    return len(chunks)


def test_mistakes_in_upstreams_operations_are_told_as_mlir_tells_them() -> None:
    assert compare(OWN) == 12


def checkout() -> Path:
    """LLVM's files. Skips the test without them."""
    if (folder := os.environ.get("WEFT_LLVM")) is None:
        pytest.skip("needs WEFT_LLVM, a checkout of LLVM")
    return Path(folder)


@pytest.mark.slow
def test_upstreams_own_mistakes_are_told_as_mlir_tells_them() -> None:
    folders = [checkout() / "mlir" / "test" / folder for folder in FOLDERS]
    files = sorted(file for folder in folders for file in folder.rglob("*invalid*.mlir"))
    assert sum(map(compare, files)) > 100


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_upstreams_own_programs_run_in_the_emulator(name: str) -> None:
    program = checkout() / INTEGRATION / f"{name}.mlir"
    run = [WEFT, "run", str(program), "--entry", "main", "--on", "emulator"]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    subprocess.run([FILECHECK, str(program)], input=done.stdout, text=True, check=True)
