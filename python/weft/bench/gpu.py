"""The GPU as the method needs it, through PyTorch, and how the machine describes itself."""

import platform
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import weft
from weft.bench import problem as problems
from weft.bench.implementation import Call, Implementation, Refusal
from weft.bench.problem import Buffers, Check, Problem
from weft.compiler import ptxas
from weft.errors import WeftError
from weft.launch import runtime
from weft.system import processes

if TYPE_CHECKING:
    import torch

_PACKAGES = (
    *("torch", "triton", "deep_gemm", "sgl-deep-gemm", "cuda-bindings", "nvidia-cublas", "llvmlite"),
    "torch-mlir",
)
# What nvidia-smi calls what doesn't change during a run, and what does.
_SETTINGS = ("driver_version", "clocks.max.sm", "clocks.max.mem", "power.limit")
_READINGS = ("clocks.sm", "clocks.mem", "power.draw", "temperature.gpu")
_COPY_BYTES = 1 << 30
_COPIES = 10
_PATIENCE_SECONDS = 60.0  # with nvidia-smi
_CHECKOUT = Path(__file__).resolve().parents[3]


def unavailable(program: str = "weft bench", *, with_torch: bool = True) -> str | None:
    """Why a program can't measure anything here, or None."""
    if (reason := runtime.available()) is not None:
        return f"{program} needs a GPU: {reason}"
    if not with_torch:
        return None
    if find_spec("torch") is None:
        return f"{program} needs PyTorch: pip install 'weft[gpu]'"
    import torch

    if not torch.cuda.is_available():
        return f"{program} needs a PyTorch that sees the GPU: {torch.__version__} doesn't"
    return None


class TorchGpu:
    """GPU 0, on one stream: what a library allocates for a stream is there before a graph is captured.

    `prepare`, `capture` and `replay` raise Refusal for what an implementation can't do, `buffers` for what no
    implementation can.
    """

    def __init__(self) -> None:
        import torch

        self._torch = torch
        self._stream = torch.cuda.Stream()

    def buffers(self, problem: Problem) -> Sequence[Buffers]:
        """The sets that the calls rotate over."""
        with self._refusing():
            created = problems.buffers(problem)
            self._torch.cuda.synchronize()
        return created

    def prepare(
        self, implementation: Implementation, problem: Problem, sets: Sequence[Buffers]
    ) -> Sequence[Call]:
        """The implementation's calls, each of which has run once: nothing is compiled or allocated later."""
        with self._refusing(), self._torch.cuda.stream(self._stream):
            calls = implementation.prepare(problem, sets)
            for call in calls:
                call()
            self._stream.synchronize()
        return calls

    def capture(self, calls: Sequence[Call]) -> "torch.cuda.CUDAGraph":
        """A graph of the calls, one after another."""
        graph = self._torch.cuda.CUDAGraph()
        with self._refusing(), self._torch.cuda.graph(graph, stream=self._stream):
            for call in calls:
                call()
        return graph

    def replay(self, graph: "torch.cuda.CUDAGraph", untimed: int, timed: int) -> list[float]:
        """Queues all replays, waits for them and returns the milliseconds of each timed one."""
        events = [self._torch.cuda.Event(enable_timing=True) for _ in range(timed + 1)]
        with self._refusing(), self._torch.cuda.stream(self._stream):
            for _ in range(untimed):
                graph.replay()
            events[0].record()
            for event in events[1:]:
                graph.replay()
                event.record()
            events[-1].synchronize()
        return [start.elapsed_time(end) for start, end in pairwise(events)]

    def idle(self, milliseconds: float) -> None:
        """Leaves the GPU without work."""
        time.sleep(milliseconds / 1000)

    def check(self, problem: Problem, sets: Sequence[Buffers], graph: "torch.cuda.CUDAGraph") -> Check:
        """Poisons the outputs, replays the graph and holds them against float64."""
        problems.poison(sets)
        self._torch.cuda.synchronize()
        self.replay(graph, 0, 1)
        return problems.check(problem, sets)

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        """Turns what a library raises into a Refusal; a fault that the GPU doesn't survive ends the run."""
        try:
            yield
        except (RuntimeError, ValueError, WeftError) as error:  # of PyTorch, Triton, DeepGEMM and Weft
            said = error.diagnostics[0].message if isinstance(error, WeftError) else str(error)
            reason = said.strip().partition("\n")[0]
            try:
                self._torch.cuda.synchronize()
            except RuntimeError:
                raise WeftError(f"the GPU doesn't recover from a fault: {reason}") from None
            raise Refusal(reason) from None

    def describe(self) -> dict[str, Any]:
        """The GPU, its settings, and the 10**9 bytes that a copy reads and writes in a second."""
        device = runtime.current()
        properties = self._torch.cuda.get_device_properties(0)
        return {
            "name": device.name,
            "chip": device.chip,
            "multiprocessors": device.multiprocessors,
            "memory_bytes": device.memory_bytes,
            "l2_bytes": properties.L2_cache_size,
            "copy_gb_s": self._copy_rate(),
            "settings": self._asked(_SETTINGS),
        }

    def reading(self) -> dict[str, str]:
        """Clocks, power and temperature now."""
        return self._asked(_READINGS)

    def _copy_rate(self) -> float:
        torch = self._torch
        source, target = (torch.zeros(_COPY_BYTES, dtype=torch.uint8, device="cuda") for _ in range(2))
        target.copy_(source)
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(_COPIES):
            target.copy_(source)
        end.record()
        end.synchronize()
        return float(2 * _COPY_BYTES * _COPIES / start.elapsed_time(end) / 1e6)

    def _asked(self, fields: Sequence[str]) -> dict[str, str]:
        """What nvidia-smi prints of this GPU, or why it prints nothing."""
        program = shutil.which("nvidia-smi")
        if program is None:
            return {"nvidia-smi": "not installed"}
        properties = self._torch.cuda.get_device_properties(0)
        asked = f"--id=GPU-{properties.uuid}", f"--query-gpu={','.join(fields)}", "--format=csv,noheader"
        try:
            done = processes.run([program, *asked], timeout=_PATIENCE_SECONDS)
        except WeftError as error:
            return {"nvidia-smi": str(error)}
        if done.returncode:
            return {"nvidia-smi": (done.stdout + done.stderr).strip() or f"exit status {done.returncode}"}
        return dict(zip(fields, done.stdout.strip().split(", "), strict=True))


def versions() -> dict[str, str]:
    """Weft's, with the commit of a checkout, Python's and ptxas's, and those of installed packages that a
    result may depend on.
    """
    installed = {"weft": weft.__version__, "python": platform.python_version(), "ptxas": ptxas.version()}
    if (_CHECKOUT / ".git").exists():
        command = ["git", "-C", str(_CHECKOUT), "rev-parse", "--short", "HEAD"]
        installed["commit"] = processes.run(command, timeout=_PATIENCE_SECONDS).stdout.strip()
    for package in _PACKAGES:
        try:
            installed[package] = version(package)
        except PackageNotFoundError:
            continue
    return installed
