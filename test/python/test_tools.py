"""The programs `weft` and `weft-opt`, run as processes: input, output, diagnostics and exit status."""

import importlib.metadata
import io
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from weft import reference
from weft.errors import Diagnostic, Location, WeftError
from weft.launch import host, host_in_python, runtime
from weft.launch.kernel import Kernel
from weft.tools import bar, cli, doctor, verify_diagnostics, weft, weft_opt
from weft.tools.product import Product, shape_of

EXAMPLE = Path(__file__).parents[2] / "examples" / "matmul.mlir"
MODULE = "func.func @f(%a: i32) -> i32 {\n  return %a : i32\n}\n"


@pytest.fixture
def module(tmp_path: Path) -> Path:
    """A file that weft-opt takes."""
    path = tmp_path / "module.mlir"
    path.write_text(MODULE)
    return path


# weft-opt's command line


def test_passes_keep_the_order_of_their_flags() -> None:
    options, flags = weft_opt.parse(["--b", "x.mlir", "-a=k=1 l=2", "--mlir-timing", "--b", "-o", "y"])
    assert flags == [("b", ""), ("a", "k=1 l=2"), ("b", "")]
    assert (options.input, options.output, options.mlir_timing) == ("x.mlir", "y", True)


def test_a_flag_takes_no_value_from_the_next_argument() -> None:
    options, _ = weft_opt.parse(["--split-input-file", "x.mlir", "--verify-each=0"])
    assert (options.split_input_file, options.input, options.verify_each) == ("// -----", "x.mlir", False)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["a", "b"], "there must be one input file; got 'a' and 'b'"),
        (["--cse", "--pass-pipeline=cse"], "both select passes"),
        (["--mlir-timing=maybe"], "--mlir-timing must be true or false, got 'maybe'"),
        (["-o"], "argument -o: expected one argument"),
    ],
)
def test_mistakes_in_the_command_line(arguments: list[str], complaint: str) -> None:
    with pytest.raises(WeftError, match=complaint):
        weft_opt.parse(arguments)


# --verify-diagnostics


def _error(line: int, message: str = "bad thing", file: str = "f", severity: str = "error") -> Diagnostic:
    return Diagnostic(message, Location(file, line, 1), severity)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("// expected-error {{bad}}", 1),
        ("\n\n// expected-error@-2 {{bad}}", 1),
        ("// expected-error @+2 {{bad}}", 3),
        ("\nop\n// expected-error@above {{thing}}", 2),
        ("// expected-error@below {{bad}}\nop", 2),
        ("op // expected-error-re {{b{{a.}} thing}}", 1),
    ],
)
def test_an_announced_diagnostic_is_met_at_its_line_only(text: str, line: int) -> None:
    assert verify_diagnostics.verify([_error(line)], text, "f") == []
    assert len(verify_diagnostics.verify([_error(line + 1)], text, "f")) == 2
    assert len(verify_diagnostics.verify([], text, "f")) == 1


def test_announcements_are_held_to_kind_message_and_file() -> None:
    text = "// expected-error {{bad}}"
    for other in (_error(1, severity="warning"), _error(1, "good"), _error(1, file="g"), Diagnostic("bad")):
        assert len(verify_diagnostics.verify([other], text, "f")) == 2
    assert (
        len(verify_diagnostics.verify([_error(1, file="g")], "// expected-error@unknown {{bad}}", "f")) == 2
    )


def test_notes_must_be_expected_and_locations_may_be_unknown() -> None:
    noted = Diagnostic("bad", Location("f", 1, 1), notes=(_error(2, "since", severity="note"),))
    text = "// expected-error {{bad}}"
    (note,) = verify_diagnostics.verify([noted], text, "f")
    assert str(note) == "f:2:1: error: unexpected note: since"
    assert verify_diagnostics.verify([noted], f"{text}\n// expected-note {{{{since}}}}", "f") == []
    assert verify_diagnostics.verify([Diagnostic("bad")], "// expected-error @unknown {{bad}}", "f") == []


# Messages and files


def test_a_message_quotes_its_line_under_tabs_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.mlir"
    file.write_text("first\n\top x\n")
    note = Diagnostic("here", Location(str(file), 1, 1), "note")
    cli.report([Diagnostic("wrong", Location(str(file), 2, 5), notes=(note,)), Diagnostic("odd")], "tool")
    said = f"{file}:2:5: error: wrong\n\top x\n\t   ^\n{file}:1:1: note: here\nfirst\n^\ntool: error: odd\n"
    assert capsys.readouterr().err == said


def test_a_location_outside_its_file_is_printed_without_a_quotation(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cli.report(
        [Diagnostic("wrong", Location("/none/x.mlir", 3, 9)), Diagnostic("w", Location("/", 1, 1))], ""
    )
    assert capsys.readouterr().err == "/none/x.mlir:3:9: error: wrong\n/:1:1: error: w\n"


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target, link = tmp_path / "out", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)

    def full(self: Path, data: bytes) -> int:
        self.touch()
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched, pytest.raises(WeftError, match="No space left"):
        patched.setattr(Path, "write_bytes", full)
        cli.write(str(target), "new")
    assert target.read_text() == "old"
    cli.write(str(link), b"new")
    assert (target.read_text(), link.is_symlink()) == ("new", True)
    assert sorted(os.listdir(tmp_path)) == ["link", "out"]  # noqa: PTH208


def test_a_file_gets_the_usual_permissions(tmp_path: Path) -> None:
    (tmp_path / "usual").touch()
    cli.write(str(tmp_path / "out"), "new")
    assert (tmp_path / "out").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_devices_are_written_in_place() -> None:
    cli.write("/dev/null", "text")
    assert Path("/dev/null").is_char_device()
    with pytest.raises(WeftError, match="cannot write '/dev/full': No space left on device"):
        cli.write("/dev/full", "text")


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (bytes(range(256)), "no UTF-8 text in line 2"),
        (b"a\n\nb\0c", "no text but a zero byte in line 3"),
        (b"\xef\xbb\xbf.version 8.0", r"junk:1:1: error: text must not begin with a byte order mark"),
    ],
)
def test_binary_input_is_refused(tmp_path: Path, content: bytes, complaint: str) -> None:
    (tmp_path / "junk").write_bytes(content)
    with pytest.raises(WeftError, match=complaint):
        cli.read(str(tmp_path / "junk"))


def test_names_that_mlir_cannot_take_are_refused() -> None:
    with pytest.raises(WeftError, match="its name is no UTF-8 text"):
        cli.read(os.fsdecode(b"\xff.mlir"))


def test_interrupts_end_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    def body() -> int:
        raise KeyboardInterrupt

    assert cli.guarded("tool", body) == 130
    assert capsys.readouterr() == ("", "tool: interrupted\n")


# Processes


def _process(tool: str, *arguments: str, shell: str = "") -> "subprocess.CompletedProcess[str]":
    """`tool` run as a script, its standard streams redirected as `shell` says."""
    code = f"import sys; from weft.tools.{tool} import main; sys.exit(main())"
    command = ["sh", "-c", f'exec "$@" {shell}', "sh", sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.slow
def test_a_reader_that_goes_away_is_no_error() -> None:
    code = "import sys; from weft.tools.weft_opt import main; sys.exit(main())"
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-c", code, str(EXAMPLE)], stdout=writing, stderr=subprocess.PIPE, check=False
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.slow
@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("shell", "complaint"),
    [
        (">/dev/full", "weft-opt: error: cannot write stdout: No space left on device\n"),
        (">&-", "weft-opt: error: cannot write: stdout is closed\n"),
        ("2>&-", ""),
    ],
)
def test_broken_streams_are_told_or_left(shell: str, complaint: str, tmp_path: Path) -> None:
    file = EXAMPLE if shell != "2>&-" else tmp_path / "none.mlir"
    done = _process("weft_opt", str(file), shell=shell)
    assert (done.returncode, done.stderr, done.stdout) == (1, complaint, "")


@pytest.mark.parametrize(
    "words", [["--help"], ["compile", "--help"], ["compile", str(EXAMPLE), "--emit", "ptx"]]
)
def test_a_closed_stdout_is_told(
    words: list[str], patch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    patch.setattr(sys, "stdout", None)
    assert weft.main(words) == 1
    assert capsys.readouterr().err == "weft: error: cannot write: stdout is closed\n"


@pytest.mark.slow
def test_a_closed_stdin_is_told() -> None:
    done = _process("weft_opt", shell="<&-")
    assert (done.returncode, done.stderr) == (1, "weft-opt: error: cannot read: stdin is closed\n")


def _imported(code: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules, file=sys.stderr)"],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return {name.partition(".")[0] for name in done.stderr.split()}


def test_weft_opt_loads_neither_cuda_nor_llvm() -> None:
    loaded = _imported(f"from weft.tools import weft_opt; weft_opt.main(['--weft-kernel', {str(EXAMPLE)!r}])")
    assert "torch_mlir" in loaded or "mlir" in loaded
    assert not loaded & {"llvmlite", "cuda", "ml_dtypes", "rich"}


@pytest.mark.parametrize("tool", ["weft", "weft_opt"])
def test_help_loads_nothing(tool: str) -> None:
    code = f"from weft.tools import {tool}\ntry: {tool}.main(['--help'])\nexcept SystemExit: pass"
    assert not _imported(code) & {"torch_mlir", "mlir", "numpy", "llvmlite", "cuda", "rich"}


# The reference and its bound


def _random(*shape: int, dtype: Any = ml_dtypes.bfloat16, seed: int = 0) -> reference.Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def _tensor_core(a: reference.Array, b: reference.Array, chunk: int) -> reference.Array:
    """The product by the worst hardware that the bound allows: terms cut off after 24 bits, sums too."""
    total = np.zeros((a.shape[0], b.shape[1]))
    for start in range(0, a.shape[1], chunk):
        left, right = (
            a[:, start : start + chunk].astype(np.float64),
            b[start : start + chunk].astype(np.float64),
        )
        terms = np.concatenate([left[:, :, None] * right[None], total[:, None, :]], axis=1)
        unit = 2.0 ** (np.frexp(np.abs(terms).max(axis=1, keepdims=True))[1] - 1 - 24)
        total = (np.trunc(terms / unit) * unit).sum(axis=1)
        ulp = 2.0 ** (np.frexp(total)[1] - 24)
        total = np.trunc(total / ulp) * ulp
    return total.astype(np.float32)


@pytest.mark.parametrize("chunk", [8, 16])
@pytest.mark.parametrize("k", [1, 8, 64, 1000])
def test_a_truncating_tensor_core_stays_within_the_bound(chunk: int, k: int) -> None:
    a, b = np.abs(_random(8, k)), np.abs(_random(k, 8, seed=1))
    found = reference.product(a, b).compare(_tensor_core(a, b, chunk))
    assert found.passed
    assert k == 1 or found.ratio > 0.001  # a bound that nothing comes near would prove nothing


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_the_last_rounding_is_allowed_and_no_more(dtype: Any) -> None:
    a, b, c = _random(16, 32), _random(24, 32, seed=1), _random(16, 24, dtype=np.float16, seed=2)
    expected = reference.product(a, b, c, transpose_b=True, alpha=0.5, beta=2.0, dtype=dtype)
    exact = 0.5 * (a.astype(float) @ b.astype(float).T) + 2.0 * c.astype(float)
    np.testing.assert_allclose(expected.values, exact, rtol=1e-12)
    assert expected.compare(exact.astype(dtype)).passed
    wrong = exact.astype(dtype)
    wrong[3, 4] += (
        2 * expected.bound[3, 4].astype(dtype) + 2 * np.abs(wrong[3, 4]) * ml_dtypes.finfo(dtype).eps
    )
    assert not expected.compare(wrong).passed


def test_a_missing_product_exceeds_the_bound() -> None:
    a, b = _random(64, 256), _random(256, 64, seed=1)
    short = (a[:, 1:].astype(np.float64) @ b[1:].astype(np.float64)).astype(np.float32)
    assert not reference.product(a, b).compare(short).passed


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_fails(value: float) -> None:
    a, b = _random(4, 4), _random(4, 4)
    expected = reference.product(a, b)
    got = expected.values.astype(np.float32)
    got[0, 0] = value
    found = expected.compare(got)
    assert not found.finite
    assert not found.passed


def test_a_sum_of_zeros_must_be_zero() -> None:
    zeros = np.zeros((4, 4), np.float16)
    expected = reference.product(zeros, zeros)
    assert expected.compare(np.zeros((4, 4), np.float32)).passed
    assert not expected.compare(np.full((4, 4), 1e-30, np.float32)).passed


# weft run


@pytest.mark.parametrize(
    "text", ["", "1x2", "1x2x3x4", "0x1x1", "1x-1x1", "axbxc", "1x1x2147483648", "²x1x1"]
)
def test_shapes_that_are_none(text: str) -> None:
    with pytest.raises(WeftError, match="expects MxNxK"):
        shape_of(text)


def test_a_shape() -> None:
    assert shape_of("1x23X456") == (1, 23, 456)


def _run(*arguments: str) -> int:
    return weft.main(["run", str(EXAMPLE), "--on", "emulator", "--arch", "sm_80", *arguments])


def test_a_wrong_result_fails(patch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    emulate = Kernel.emulate

    def faulty(self: Kernel, *operands: Any, **rest: Any) -> Any:
        report = emulate(self, *operands, **rest)
        operands[2][5, 7] += 0.01
        return report

    patch.setattr(Kernel, "emulate", faulty)
    assert _run("--shape", "16x8x16") == 1
    assert capfd.readouterr().out.endswith("FAIL\n")


def test_an_element_that_was_not_written_fails(
    patch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    patch.setattr(Kernel, "emulate", lambda *_, **__: SimpleNamespace(instructions=0, findings=()))
    assert _run("--shape", "16x8x16") == 1
    assert "some elements aren't finite" in capfd.readouterr().out


@pytest.mark.slow
def test_a_seed_fixes_the_inputs(patch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    seen: list[bytes] = []

    def keep(self: Kernel, *operands: Any, **_: Any) -> Any:
        seen.append(operands[0].tobytes())
        return SimpleNamespace(instructions=0, findings=())

    patch.setattr(Kernel, "emulate", keep)
    for seed in ("1", "1", "2"):
        _run("--shape", "16x8x16", "--seed", seed)
    assert seen[0] == seen[1] != seen[2]
    capfd.readouterr()


@pytest.mark.slow
def test_code_that_the_gpu_cannot_run_is_emulated(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def loaded(_: Kernel) -> None:
        raise WeftError("CUDA_ERROR_NO_BINARY_FOR_GPU")

    monkeypatch.setattr(runtime, "available", lambda: None)
    monkeypatch.setattr(runtime, "device", lambda: SimpleNamespace(name="A GPU", chip="sm_90a"))
    monkeypatch.setattr(Kernel, "loaded", loaded)
    arguments = ["run", str(EXAMPLE), "--arch", "sm_80", "--shape", "16x8x16"]
    assert weft.main(arguments) == 0
    reason = "A GPU is sm_90a and takes no code for sm_80"
    assert capfd.readouterr().out.startswith(f"no GPU: {reason}; running in the emulator\n")
    assert weft.main([*arguments, "--on", "gpu"]) == 1
    assert capfd.readouterr().err == f"weft: error: no GPU to run on: {reason}\n"


def test_a_chip_of_the_module_is_kept(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    kernel = tmp_path / "kernel.mlir"
    text = (
        'gpu.module @m [#nvvm.target<chip = "sm_90">] {\n  gpu.func @k() kernel {\n    gpu.return\n  }\n}\n'
    )
    kernel.write_text(text)
    assert weft.main(["compile", str(kernel)]) == 0
    assert ".target sm_90\n" in capfd.readouterr().out
    assert weft.main(["compile", str(kernel), "--arch", "sm_80"]) == 1
    assert "the module is for sm_90, not for sm_80" in capfd.readouterr().err


def test_the_bar_waits_before_it_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(bar.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(sys, "stderr", terminal := io.StringIO())
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    with bar.Bar("label", "CTAs") as made:
        made(1, 100)
        assert made._shown is None
        now[0] = 2.5
        made(50, 100)
        assert made._shown.tasks[0].completed == 50
        with made._shown.console.capture() as captured:
            made._shown.console.print(made._shown.make_tasks_table(made._shown.tasks))
    plain = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", captured.get())
    assert re.search(r"label .* 50/100 CTAs \S*:", plain), plain


def test_the_bar_leaves_nothing_in_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(bar.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(sys, "stderr", file := io.StringIO())
    with bar.Bar("label") as made:
        now[0] = 2.5
        made(50, 100)
    assert file.getvalue() == ""


def test_operands_that_are_not_read_are_poisoned() -> None:
    from weft import mlir
    from weft.compiler.stages import compile_module
    from weft.dialects import context

    memref = "memref<?x?xf16>"
    text = (
        f"func.func @f(%A: {memref}, %B: {memref}, %C: {memref}, %D: {memref}) {{\n"
        '  "tile.matmul"(%A, %B, %D, %C)'
        "  {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>}"
        f" : ({memref}, {memref}, {memref}, {memref}) -> ()\n  return\n}}\n"
    )
    product = Product.of(mlir.parse(text, context()), "f", (16, 8, 24))
    (launch,) = compile_module(text, "sm_80").launches.values()
    operands = product.operands(launch, 0)
    assert [o.shape for o in operands] == [(16, 24), (24, 8), (16, 8), (16, 8)]
    assert [bool(np.isnan(o).all()) for o in operands] == [False, False, True, True]


# weft doctor


def test_the_doctor_fails_only_for_what_is_required(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def missing() -> str:
        raise WeftError("not found: get it there")

    monkeypatch.setattr(doctor, "_CHECKS", (("luxury", False, missing), ("heart", True, lambda: "beats")))
    assert weft.main(["doctor"]) == 0
    assert "none     luxury     not found: get it there" in capfd.readouterr().out
    monkeypatch.setattr(doctor, "_CHECKS", (("heart", True, missing),))
    assert weft.main(["doctor"]) == 1
    assert "MISSING  heart      not found: get it there\nMissing: heart.\n" in capfd.readouterr().out


@pytest.mark.parametrize(("spec", "state"), [(None, "is missing"), (object(), "is older than host.c")])
def test_the_doctor_names_host_code_that_runs_in_python(
    spec: object, state: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(host, "functions", host_in_python)
    monkeypatch.setattr(doctor, "find_spec", lambda name: spec)
    monkeypatch.setattr(doctor, "_CHECKS", (("host code", False, doctor._host_code),))
    assert weft.main(["doctor"]) == 0
    assert f"none     host code  compiled host.c {state}: calls take longer" in capfd.readouterr().out


def test_the_doctor_needs_no_metadata(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Weft runs from a folder on the path, too, that no installer knows."""

    def unknown(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", unknown)
    monkeypatch.setattr(doctor, "_CHECKS", ())
    assert weft.main(["doctor"]) == 0
    assert capfd.readouterr().out.startswith("weft 0.1.0, Python 3.")
