"""Warp: kernels with gradients against NumPy, and Warp's own examples against its code for the CPU.

Warp's launches go to the emulator, on arrays in host memory. Its NVRTC compiles the PTX, without a GPU.
"""

import functools
import importlib
import json
import math
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType

import harness
import numpy as np
import warp as wp
from harness import Case, Results
from warp._src import codegen, context

from weft import emulator

wp.config.log_level = wp.LOG_ERROR
wp.config.kernel_cache_dir = str(Path(os.environ.get("FOREIGN_CACHE", "/tmp"), "warp"))
wp.init()

CHIPS = (80, 90, 100)
RNG = np.random.default_rng(8)
NATIVE, NATIVE_TILED = wp.launch, wp.launch_tiled  # by Warp's code for the CPU


@functools.cache
def compiled(module: context.Module, chip: int, block: int, code: bytes) -> tuple[emulator.Module, dict]:
    """A module of Warp for blocks of `block` threads, and Warp's facts about its kernels; `code` names its
    contents.
    """
    options = module.resolve_options(wp.config, block_dim=block)
    folder = Path(wp.config.kernel_cache_dir, module.get_module_identifier(block))
    module._compile(None, folder, output_arch=chip, use_ptx=True, options=options)
    (ptx,) = folder.glob(f"*.sm{chip}.ptx")
    return harness.parse(ptx.read_text().rstrip("\0")), json.loads(next(folder.glob("*.meta")).read_text())


def arrays(value: object) -> Iterator[wp.array]:
    """The arrays that an argument refers to."""
    if isinstance(value, wp.array):
        yield value
        if value.grad is not None:
            yield value.grad
    elif isinstance(value, wp.indexedarray):
        for part in (value.data, *value.indices):
            yield from arrays(part)
    elif isinstance(value, codegen.StructInstance):
        for name in value._cls.vars:
            yield from arrays(getattr(value, name))


def by_value(kernel: context.Kernel, at: int, value: object, adjoint: bool) -> emulator.Struct | bytes:
    """The parameter for an argument, whose pointers are arrays."""
    formal = kernel.adj.args[at]
    cpu = context.runtime.cpu_device
    data = bytes(context.pack_arg(kernel, formal.type, formal.label, value, cpu, adjoint))
    known = {a.ptr: a.numpy() for a in arrays(value) if a.ptr}
    words = np.frombuffer(data, np.uint64) if len(data) % 8 == 0 else ()
    pointers = {8 * i: known[int(word)] for i, word in enumerate(words) if int(word) in known}
    if not pointers:
        return data
    others = {8 * i: word for i, word in enumerate(words) if 8 * i not in pointers}
    return emulator.Struct(len(data), pointers | others)


def launch(
    kernel: context.Kernel,
    dim: int | Sequence[int],
    inputs: Sequence[object] = (),
    outputs: Sequence[object] = (),
    adj_inputs: Sequence[object] = (),
    adj_outputs: Sequence[object] = (),
    device: object = None,
    stream: object = None,
    adjoint: bool = False,
    record_tape: bool = True,
    record_cmd: bool = False,
    max_blocks: int = 0,
    block_dim: int | None = None,
    *,
    chip: int,
) -> context.Launch | None:
    """`wp.launch` in the emulator."""
    dim = (dim,) if isinstance(dim, int) else tuple(dim)
    if record_cmd:  # the CPU's
        return NATIVE(kernel, dim, inputs, outputs, record_cmd=True)
    if not math.prod(dim):
        return None
    block = context._ResolvedBlockDim(block_dim or 256)
    given, adjoints = [*inputs, *outputs], [*adj_inputs, *adj_outputs]
    plain = kernel
    if kernel.is_generic:
        kernel = kernel._add_normalized_overload(kernel.infer_argument_types(given))
    code = kernel.module.get_module_hash(block)
    module, facts = compiled(kernel.module, chip, block, code)
    bounds = context._build_kernel_launch_bounds(dim, kernel, block)
    name = (codegen.cuda_kernel_backward_name if adjoint else codegen.cuda_kernel_forward_name)(kernel)
    args = [by_value(kernel, i, value, False) for i, value in enumerate(given)]
    args += [by_value(kernel, i, value, True) for i, value in enumerate(adjoints)]
    grid = -(-bounds.size // block)
    harness.launch(
        module, name, grid, block, [bytes(bounds), *args], shared_bytes=facts.get(f"{name}_smem_bytes", 0)
    )
    if context.runtime.tape and record_tape:
        context.runtime.tape.record_launch(plain, dim, max_blocks, inputs, outputs, device, block)
    return None


def launch_tiled(kernel: context.Kernel, dim: int | Sequence[int], block_dim: int, **options: object) -> None:
    dim = [dim] if isinstance(dim, int) else dim
    wp.launch(kernel, [*dim, block_dim], block_dim=block_dim, **options)


def use(chip: int | None) -> None:
    """Makes Warp launch in the emulator, with PTX for a chip; None: by its code for the CPU."""
    wp.launch = context.launch = functools.partial(launch, chip=chip) if chip else NATIVE
    wp.launch_tiled = context.launch_tiled = launch_tiled if chip else NATIVE_TILED


@wp.kernel
def saxpy(x: wp.array[float], y: wp.array[float], a: float):
    i = wp.tid()
    y[i] = a * x[i] + wp.sin(x[i])


@wp.kernel
def dot_product(x: wp.array[float], z: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    wp.atomic_add(y, 0, x[i] * z[i])


@wp.kernel
def rotate(x: wp.array[wp.vec3], q: wp.array[wp.quat], y: wp.array[wp.vec3]):
    i = wp.tid()
    y[i] = wp.quat_rotate(wp.normalize(q[i]), x[i])


@wp.kernel
def solve(m: wp.array[wp.mat33], x: wp.array[wp.vec3], y: wp.array[wp.vec3]):
    i = wp.tid()
    y[i] = wp.inverse(m[i]) * x[i]


@wp.kernel
def singular(m: wp.array[wp.mat33], y: wp.array[wp.mat33]):
    i = wp.tid()
    u = wp.mat33()
    s = wp.vec3()
    v = wp.mat33()
    wp.svd3(m[i], u, s, v)
    y[i] = u * wp.diag(s) * wp.transpose(v)


@wp.kernel
def stencil(x: wp.array2d[wp.float64], y: wp.array2d[wp.float64]):
    i, j = wp.tid()
    n, m = x.shape[0], x.shape[1]
    y[i, j] = x[(i + 1) % n, j] + x[i, (j + 1) % m] - wp.float64(2.0) * x[i, j]


@wp.kernel
def half_power(x: wp.array[wp.float16], y: wp.array[wp.float16]):
    i = wp.tid()
    y[i] = x[i] * x[i] + wp.float16(0.5)


@wp.kernel
def bits(x: wp.array[wp.uint32], y: wp.array[wp.uint32]):
    i = wp.tid()
    v = x[i]
    while v & wp.uint32(1) == wp.uint32(0):
        v = v >> wp.uint32(1)
    y[i] = v ^ (x[i] << wp.uint32(3))


@wp.kernel
def tile_sums(x: wp.array2d[float], y: wp.array[float]):
    i = wp.tid()
    tile = wp.tile_load(x[i], shape=128)
    wp.tile_store(y, wp.tile_sum(tile * tile), offset=i)


@wp.kernel
def tile_product(a: wp.array2d[float], b: wp.array2d[float], y: wp.array2d[float]):
    i, j = wp.tid()
    total = wp.tile_zeros(shape=(16, 16), dtype=float)
    for k in range(a.shape[1] // 16):
        of_a = wp.tile_load(a, shape=(16, 16), offset=(i * 16, k * 16))
        of_b = wp.tile_load(b, shape=(16, 16), offset=(k * 16, j * 16))
        wp.tile_matmul(of_a, of_b, total)
    wp.tile_store(y, total, offset=(i * 16, j * 16))


@wp.kernel
def tile_order(x: wp.array[int], y: wp.array[int]):
    keys = wp.tile_load(x, shape=128, storage="shared")
    values = wp.tile_arange(128, dtype=int, storage="shared")
    wp.tile_sort(keys, values)
    wp.tile_store(y, keys)


wp.set_module_options({"enable_mathdx_gemm": False})  # which links code that only has a form as machine code


def turned(x: np.ndarray, q: np.ndarray) -> np.ndarray:
    q = q / np.linalg.norm(q, axis=1, keepdims=True)
    v, w = q[:, :3], q[:, 3:]
    return x + 2 * np.cross(v, np.cross(v, x) + w * x)


def odd_part(x: np.ndarray) -> np.ndarray:
    return np.array([int(v) // (int(v) & -int(v)) for v in x], np.uint32) ^ (x << 3)


def difference2(x: np.ndarray) -> np.ndarray:
    return np.roll(x, -1, 0) + np.roll(x, -1, 1) - 2 * x


def f32(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def tests() -> Iterator[tuple]:
    """Kernel, dimensions, threads of a tile or 0, inputs, the result as a function of them, other inputs."""
    x, z = f32(300), f32(300)
    yield saxpy, 300, 0, (x,), lambda x: 1.5 * x + np.sin(x), (1.5,)
    yield dot_product, 300, 0, (x, z), lambda x, z: (x * z).sum(keepdims=True), ()
    yield rotate, 70, 0, (f32(70, 3), f32(70, 4)), turned, ()
    m = np.eye(3, dtype=np.float32) + f32(70, 3, 3) / 5
    yield solve, 70, 0, (m, f32(70, 3)), lambda m, x: np.linalg.solve(m, x[..., None])[..., 0], ()
    yield singular, 70, 0, (m,), lambda m: m, ()
    yield stencil, (37, 50), 0, (RNG.standard_normal((37, 50)),), difference2, ()
    yield half_power, 300, 0, (x.astype(np.float16),), lambda x: x * x + np.float16(0.5), ()
    yield bits, 200, 0, (RNG.integers(1, 1 << 30, 200).astype(np.uint32),), odd_part, ()
    yield tile_sums, 5, 64, (f32(5, 128),), lambda x: (x * x).sum(1), ()
    yield tile_product, (3, 2), 64, (f32(48, 64), f32(64, 32)), np.matmul, ()
    yield tile_order, 1, 64, (RNG.integers(0, 999, 128).astype(np.int32),), np.sort, ()


def case(chip, kernel, dim, block, inputs, expected, others) -> Results:
    use(chip)
    want = expected(*inputs)
    formals = [getattr(a.type, "dtype", None) for a in kernel.adj.args]
    smooth = want.dtype.kind == "f"
    given = [wp.array(x, dtype=kind, requires_grad=smooth) for x, kind in zip(inputs, formals, strict=False)]
    kind = formals[len(given)]
    wide = wp.zeros(want.shape[: kernel.adj.args[len(given)].type.ndim], dtype=kind, requires_grad=smooth)
    arguments = [*given, wide, *others]
    with wp.Tape() as tape:
        options = {"block_dim": block} if block else {}
        (wp.launch_tiled if block else wp.launch)(kernel, dim=dim, inputs=arguments, **options)
    yield wide.numpy(), want, 2e-3 if want.dtype == np.float16 else 1e-5
    if not smooth:
        return
    weights = RNG.standard_normal(want.shape)
    tape.backward(grads={wide: wp.array(weights.astype(want.dtype), dtype=kind)})
    along = [RNG.standard_normal(x.shape) for x in inputs]
    exact = [x.astype(np.float64) for x in inputs]
    step = 1e-5
    ends = (expected(*(x + s * step * d for x, d in zip(exact, along, strict=True))) for s in (1, -1))
    slope = ((next(ends) - next(ends)) / (2 * step) * weights).sum()
    got = sum((x.grad.numpy() * d).sum(dtype=np.float64) for x, d in zip(given, along, strict=True))
    yield np.array([got]), np.array([slope]), 1e-2 if want.dtype == np.float16 else 1e-4


def example(name: str) -> ModuleType:
    return importlib.import_module(f"warp.examples.{name}")


def fluid() -> Iterator[wp.array]:
    module = example("core.example_fluid")
    module.grid_width, module.grid_height = 48, 32
    made = module.Example()
    made.use_graph_capture, made.iterations = False, 4
    for _ in range(2):
        made.step()
    yield from (made.rho0, made.u0, made.p0)


def field() -> Iterator[wp.array]:
    module = example("core.example_fdtd_3d")
    module.N_GRID = 16
    made = module.Example()
    for _ in range(3):
        made.step()
    made._check_em_energy(3)
    yield from (made.e_x, made.h_z, made.electric_energy_sum)


def bodies() -> Iterator[wp.array]:
    made = example("tile.example_tile_nbody").Example(headless=True, num_bodies=256)
    for _ in range(2):
        made.step()
    yield from (made.pos_array_0, made.vel_array)


def spin_lock() -> Iterator[wp.array]:
    module = example("core.example_spin_lock")
    counts = [wp.zeros(1, dtype=int) for _ in range(3)]
    wp.launch(module.test_spinlock_counter, dim=96, inputs=counts)
    yield from counts


def diffusion() -> Iterator[wp.array]:
    made = example("fem.example_diffusion").Example(quiet=True, resolution=3)
    made.step()
    yield made._scalar_field.dof_values


EXAMPLES = (fluid, field, bodies, spin_lock, diffusion)


def compared(run: Callable[[], Iterator[wp.array]]) -> Results:
    """An example by the emulator and by Warp's code for the CPU."""
    use(None)
    want = [array.numpy().copy() for array in run()]
    use(90)
    for got, expected in zip(run(), want, strict=True):
        yield got.numpy(), expected, 1e-4


def cases() -> Iterator[Case]:
    for test in tests():
        for chip in CHIPS:
            yield f"{test[0].key} sm_{chip}", functools.partial(case, chip, *test)
    for run in EXAMPLES:
        yield f"example {run.__name__}", functools.partial(compared, run)
