"""Programs of benchmarks/, examples/ and test/gpu explain themselves, and name the GPUs that they lack."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from weft.bench import gpu, scripts

ROOT = Path(__file__).parents[2]
FOLDERS = ("benchmarks", "examples", "test/gpu")
NOT_ON_GPUS = ("benchmarks/emulator/", "benchmarks/distributed/llama_block.py")
RUN = """
    import contextlib, io, runpy, sys
    from pathlib import Path

    root, *named = sys.argv[1:]
    FOLDERS = tuple(f"{root}/{each}/" for each in ("benchmarks", "examples", "test"))
    for name in named:
        path, _, option = name.partition(" ")
        sys.argv, said = [str(Path(root) / path), *option.split()], io.StringIO()
        sys.path.insert(0, str(Path(root, path).parent))
        try:
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
                runpy.run_path(sys.argv[0], run_name="__main__")
            ended = "didn't end"
        except SystemExit as end:
            ended = end.code
        except BaseException as error:
            ended = f"raised {error!r}"
        print(path, "|", ended, "|", said.getvalue().strip().partition("\\n")[0])
        for each, module in list(sys.modules.items()):  # folders have modules of the same names
            if str(getattr(module, "__file__", "")).startswith(FOLDERS):
                del sys.modules[each]
"""


def programs(*folders):
    paths = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    texts = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in paths}
    return [name for name, text in texts.items() if 'if __name__ == "__main__":' in text]


def ends(named):
    """How each program ends, and the first line that it prints."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(RUN), str(ROOT), *named],
        env=os.environ | {"CUDA_VISIBLE_DEVICES": "", "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    return [line.split(" | ") for line in done.stdout.splitlines()]


@pytest.mark.slow
def test_programs_explain_themselves():
    pytest.importorskip("torch")
    pytest.importorskip("jax")
    named = [each for each in programs(*FOLDERS) if "distributed_ranks" not in each]
    found = ends([f"{each} --help" for each in named])
    assert [name for name, *_ in found] == named and len(named) > 35
    for name, end, said in found:
        assert end == "0" and said.startswith(f"usage: {Path(name).name} [-h]"), (name, end, said)


@pytest.mark.slow
def test_programs_without_gpus_end_with_a_sentence():
    pytest.importorskip("torch")
    pytest.importorskip("jax")
    named = [each for each in programs("benchmarks") if not each.startswith(NOT_ON_GPUS)]
    named += [f"test/gpu/{each}.py" for each in ("compare_arithmetic", "jax_teams")]
    for name, end, said in ends(named):
        assert end == "1" and f"{Path(name).name} needs " in said and "GPU" in said, (name, end, said)
    started = (
        "examples/distributed_mlp.py",
        "examples/distributed_training.py",
        "test/gpu/distributed_ranks.py",
    )
    for name, end, said in ends(started):
        assert "torchrun" in end + said or "starts this program" in end, (name, end, said)


@pytest.mark.parametrize(
    ("given", "gpus", "seen", "missing", "said"),
    [
        ([], 1, None, "p.py needs a GPU: none", "p.py needs a GPU: none\n"),
        ([], 2, 1, None, "p.py needs 2 GPUs, got 1\n"),
        (["--gpus", "4"], 2, 3, None, "p.py needs 4 GPUs, got 3\n"),
        (["--gpus", "4"], 2, 4, None, None),
    ],
)
def test_missing_gpus_are_counted(given, gpus, seen, missing, said, monkeypatch, capsys):
    monkeypatch.setattr(gpu, "unavailable", lambda program, with_torch: missing)
    monkeypatch.setattr(sys, "argv", ["p.py", *given])
    parser = scripts.parser("Times nothing.\n\n    python p.py")
    parser.add_argument("--gpus", type=int, default=0)
    if said is None:
        assert scripts.parsed(parser, gpus, seen).gpus == 4
        return
    with pytest.raises(SystemExit) as end:
        scripts.parsed(parser, gpus, seen)
    assert end.value.code == 1 and capsys.readouterr().err == said
