"""Launches an exported kernel without Weft: reads the .json and .cubin, and calls the driver by cuda-python.

    cd examples && python -c "import language_gemm; language_gemm.gemm_gelu.export('/tmp/gelu')"
    python launch_exported.py /tmp/gelu  # needs a GPU, and PyTorch

docs/launch.md describes the fields of the .json.
"""

import ctypes
import json
import operator
import re
import struct
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from cuda.bindings import driver

_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "ceildiv": lambda a, b: -(-a // b),
    "floordiv": operator.floordiv,
    "mod": operator.mod,
}
_FORMATS = {"f32": "f", "f64": "d", "index": "q", "i1": "?", "i64": "q", "i32": "i", "i16": "h", "i8": "b"}
_FORMATS |= {"ui64": "Q", "ui32": "I", "ui16": "H", "ui8": "B"}  # of numbers
_MAP_TYPES = {"f16": "FLOAT16", "bf16": "BFLOAT16", "f32": "FLOAT32", "i32": "INT32"}


def evaluated(expression: str, sizes: Sequence[int]) -> int:
    """An expression of `grid` or `requires`, such as `(s0 ceildiv 128)`."""
    tokens = re.findall(r"[()]|[^\s()]+", expression)

    def value() -> int:
        token = tokens.pop(0)
        if token != "(":
            return sizes[int(token[1:])] if token.startswith("s") else int(token)
        left, operation, right = value(), tokens.pop(0), value()
        tokens.pop(0)  # the closing parenthesis
        return _OPERATIONS[operation](left, right)

    return value()


def checked(result: Any) -> Any:
    """The values of a call of the driver. Raises RuntimeError for an error."""
    error, *values = result
    if error != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(f"{error.name}")
    return values[0] if len(values) == 1 else values


class Exported:
    """A kernel of the current context, from `path`.json and `path`.cubin. Call it with PyTorch's tensors."""

    def __init__(self, path: str) -> None:
        self.record = json.loads(Path(f"{path}.json").read_text())
        if self.record["workspaces"]:
            raise NotImplementedError("kernels with workspaces: docs/launch.md#workspaces")
        self._module = checked(driver.cuModuleLoadData(Path(f"{path}.cubin").read_bytes()))
        self._function = checked(driver.cuModuleGetFunction(self._module, self.record["name"].encode()))
        most = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        checked(driver.cuFuncSetAttribute(self._function, most, self.record["shared_bytes"]))

    def __call__(self, *args: Any, stream: int) -> None:
        parameters = [ctypes.create_string_buffer(each, len(each)) for each in self.parameters(args)]
        addresses = (ctypes.c_void_p * len(parameters))(*map(ctypes.addressof, parameters))
        config = driver.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = self.grid(args)
        config.blockDimX, config.blockDimY, config.blockDimZ = self.record["block"]
        config.sharedMemBytes, config.hStream = self.record["shared_bytes"], stream
        checked(driver.cuLaunchKernelEx(config, self._function, ctypes.addressof(addresses), 0))

    def grid(self, args: Sequence[Any]) -> tuple[int, int, int]:
        """The CTAs of a launch. Raises ValueError if the shapes don't fit together."""
        sizes = [size for each in args if hasattr(each, "shape") for size in each.shape]
        sizes += [each for each in args if isinstance(each, int)]
        if any(evaluated(each, sizes) for each in self.record["requires"] or ()):
            raise ValueError(f"{self.record['name']}: {self.record['requires']} must be 0 for sizes {sizes}")
        x, y, z = (evaluated(each, sizes) for each in self.record["grid"])
        persistent, (across, down, deep) = self.record["persistent"], self.record["cluster"]
        if persistent is None:
            return x, y, z
        tiles, ctas = x * y * z, across * down * deep
        most = max(1, persistent * self._resident(ctas) // ctas) * ctas
        return (min(tiles, most) if persistent else tiles), 1, 1

    def _resident(self, ctas: int) -> int:
        """How many CTAs the GPU can hold at a time, in clusters."""
        if ctas == 1:
            count = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
            return int(checked(driver.cuDeviceGetAttribute(count, checked(driver.cuCtxGetDevice()))))
        config, cluster = driver.CUlaunchConfig(), driver.CUlaunchAttribute()
        config.gridDimX, config.gridDimY, config.gridDimZ = ctas, 1, 1
        config.blockDimX, config.blockDimY, config.blockDimZ = self.record["block"]
        config.sharedMemBytes = self.record["shared_bytes"]
        cluster.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        extent = cluster.value.clusterDim
        extent.x, extent.y, extent.z = self.record["cluster"]
        config.attrs, config.numAttrs = [cluster], 1
        return int(checked(driver.cuOccupancyMaxActiveClusters(self._function, config))) * ctas

    def parameters(self, args: Sequence[Any]) -> list[bytes]:
        """The bytes of the kernel's parameters, in order."""
        made = []
        for value, wanted in zip(args, self.record["arguments"], strict=True):
            if "shape" in wanted:
                address = struct.pack("Q", value.data_ptr())
                numbers = (0, *value.shape, *value.stride())
                made += [address, address, *(struct.pack("q", number) for number in numbers)]
            else:
                made.append(struct.pack(_FORMATS[wanted["dtype"]], value))
        return made + [self._map(args[each["matrix"]], each) for each in self.record["maps"]]

    def _map(self, matrix: Any, wanted: dict[str, Any]) -> bytes:
        """A tensor map: its sizes, strides and box begin with the columns."""
        if wanted["chunk"] or wanted["skewed"] or wanted["joined"]:
            raise NotImplementedError("these tensor maps: docs/launch.md#tensor-maps")
        dtype = self.record["arguments"][wanted["matrix"]]["dtype"]
        type_ = _MAP_TYPES.get(dtype, f"UINT{8 * matrix.element_size()}")
        strides = [stride * matrix.element_size() for stride in matrix.stride()[-2::-1]]
        swizzle, promotion = wanted["swizzle"].upper(), wanted["l2_promotion"].upper()
        promotion = "NONE" if promotion == "NONE" else f"L2_{promotion}"
        encoded = driver.cuTensorMapEncodeTiled(
            getattr(driver.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{type_}"),
            matrix.dim(),
            matrix.data_ptr(),
            [driver.cuuint64_t(size) for size in matrix.shape[::-1]],
            [driver.cuuint64_t(stride) for stride in strides],
            [driver.cuuint32_t(size) for size in (*wanted["box"][::-1], *[1] * (matrix.dim() - 2))],
            [driver.cuuint32_t(1)] * matrix.dim(),
            driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
            getattr(driver.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{swizzle}"),
            getattr(driver.CUtensorMapL2promotion, f"CU_TENSOR_MAP_L2_PROMOTION_{promotion}"),
            driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
        return struct.pack("16Q", *(int(word) for word in checked(encoded).opaque))


def main() -> None:
    """Launches the kernel of language_gemm.py, and prints its largest error."""
    import torch

    a, b = (torch.randn(rows, 512, device="cuda").bfloat16() for rows in (1000, 1200))
    bias = torch.randn(1200, device="cuda")
    d = torch.empty(1000, 1200, dtype=torch.bfloat16, device="cuda")
    Exported(sys.argv[1])(a, b, bias, d, stream=torch.cuda.current_stream().cuda_stream)
    expected = torch.nn.functional.gelu(a.float() @ b.float().T + bias)
    print(f"largest error: {float((d.float() - expected).abs().max()):.3f}")


if __name__ == "__main__":
    main()
