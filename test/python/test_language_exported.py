"""The example that launches exported kernels without Weft: what it gives the driver, run by the emulator."""

import ctypes
import runpy
import struct
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import weft.language as w
from weft import emulator
from weft.isa import tensor_map

torch = pytest.importorskip("torch")
real = pytest.importorskip("cuda.bindings.driver")
EXAMPLES = Path(__file__).parents[2] / "examples"
OK = real.CUresult.CUDA_SUCCESS


class Driver:
    """A driver that loads no module, and whose launches run in the emulator."""

    def __init__(self, arrays: list[Any]) -> None:
        self.arrays = {each.data_ptr(): each.view(torch.int16).numpy() for each in arrays}
        self.maps: list[emulator.TensorMap] = []
        self.parameters: list[str] = []
        self.ptx = ""
        self.grid: tuple[int, ...] = ()

    def __getattr__(self, name: str) -> Any:
        assert not name.startswith("cu") or name.startswith("cuuint"), f"the example must not call {name}"
        return getattr(real, name)

    def cuModuleLoadData(self, cubin: bytes) -> Any:
        assert cubin.startswith(b"\x7fELF")
        return OK, 1

    def cuModuleGetFunction(self, module: int, name: bytes) -> Any:
        self.name = name.decode()
        return OK, 2

    def cuFuncSetAttribute(self, *_: Any) -> Any:
        return (OK,)

    def cuOccupancyMaxActiveClusters(self, function: int, config: Any) -> Any:
        assert config.attrs[0].value.clusterDim.x == 2
        return OK, 3

    def cuTensorMapEncodeTiled(self, kind: Any, rank: int, address: int, *rest: Any) -> Any:
        sizes, strides, box, steps = (tuple(map(int, each)) for each in rest[:4])
        _, swizzle, promotion, _ = (each.name.rpartition("_")[2].replace("NONE", "none") for each in rest[4:])
        fields = tensor_map.TensorMap(
            0,
            kind.name.rpartition("_")[2],
            sizes,
            strides,
            steps,
            box=box,
            swizzle=swizzle,
            l2_promotion=promotion,
        )
        assert rank == len(sizes)
        assert not fields.complaint()
        self.maps.append(emulator.TensorMap(fields, self.arrays[address]))
        return OK, SimpleNamespace(opaque=[len(self.maps) - 1] * 16)

    def cuLaunchKernelEx(self, config: Any, function: int, parameters: int, extra: int) -> Any:
        self.grid = config.gridDimX, config.gridDimY, config.gridDimZ
        pointers = (ctypes.c_void_p * len(self.parameters)).from_address(parameters)
        args = [self._argument(name, at) for name, at in zip(self.parameters, pointers, strict=True)]
        block = config.blockDimX, config.blockDimY, config.blockDimZ
        report = emulator.Module(self.ptx).launch(
            self.name, grid=self.grid, block=block, args=args, shared_bytes=config.sharedMemBytes
        )
        assert not report.findings
        return (OK,)

    def _argument(self, name: str, address: int) -> Any:
        (number,) = struct.unpack("q", ctypes.string_at(address, 8))
        if name.startswith("map"):
            return self.maps[number]
        return self.arrays[number] if name.endswith("pointer") else number


def launched(kernel: Any, arrays: list[Any], path: Path, **meta: Any) -> Driver:
    """Exports a kernel, and launches it by the example."""
    _, ptx, _ = kernel.export(path, arch="sm_90a", **meta)
    example = runpy.run_path(str(EXAMPLES / "launch_exported.py"))
    made = Driver(arrays)
    example["Exported"].__init__.__globals__["driver"] = made
    exported = example["Exported"](str(path))
    made.ptx, made.parameters = ptx.read_text(), exported.record["parameters"]
    exported(*arrays, stream=0)
    return made


def test_the_example_launches_the_kernel_of_language_gemm(tmp_path):
    kernel = runpy.run_path(str(EXAMPLES / "language_gemm.py"))["gemm_gelu"]
    a, b = (torch.randn(rows, 136).bfloat16() for rows in (200, 264))
    bias, d = torch.randn(264), torch.zeros(200, 264, dtype=torch.bfloat16)
    made = launched(kernel, [a, b, bias, d], tmp_path / "gelu")
    assert made.grid == (2, 2, 1)
    expected = torch.nn.functional.gelu(a.float() @ b.float().T + bias)
    assert torch.allclose(d.float(), expected, atol=0.05, rtol=0.02)


def test_clusters_and_persistent_kernels(tmp_path):
    @w.kernel(grid=lambda x, y: (w.ceil_div(x.rows, 128) * 2, x.matrices), cluster=2, persistent=1)
    def copy(x: w.In["b m n", w.bf16], y: w.Out["b m n", w.bf16]):
        ring = w.ring(2, x=(64, 64, x.dtype))
        with w.role():
            for row, batch in w.tiles():
                with ring.take() as stage:
                    w.store(w.load(stage.x), y[batch, 64 * row, 0])
        with w.role(), w.one_thread():
            for row, batch in w.tiles():
                ring.fill(x=x[batch, 64 * row])

    x = torch.randn(3, 200, 64).bfloat16()
    y = torch.zeros_like(x)
    made = launched(copy, [x, y], tmp_path / "copy")
    assert made.grid == (6, 1, 1)  # of 12 tiles
    assert torch.equal(x, y)
    with pytest.raises(ValueError, match="must be 0"):
        launched(copy, [x, torch.zeros(3, 100, 64).bfloat16()], tmp_path / "copy")
