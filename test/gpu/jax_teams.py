"""Checks of products over the GPUs of one process in JAX, for `test_jax_gpu.py`:

    python test/gpu/jax_teams.py

Each check runs over 2 GPUs and over 4, if there are so many. Results are compared with float64.
"""

import os
import time
from functools import partial

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
os.environ.setdefault("NCCL_NVLS_ENABLE", "0")  # NVLink multicast stays off

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import weft.jax
from weft.bench import scripts

BF16 = jnp.bfloat16
ROWS, COLUMNS = P("x", None), P(None, "x")


def whole(*shape, seed=0, dtype=BF16):
    """Small whole numbers, whose sums are exact."""
    return np.random.default_rng(seed).integers(-2, 3, shape).astype(dtype)


def f64(array):
    return np.asarray(array, np.float64)


def near(found, want, tolerance=0.01):
    found = f64(found)
    assert found.shape == want.shape, (found.shape, want.shape)
    error = np.abs(found - want).max() / max(np.abs(want).max(), 1e-9)
    assert error <= tolerance, error


def mesh_of(gpus, axes=("x",), shape=None):
    return jax.make_mesh(
        shape or (gpus,), axes, axis_types=(AxisType.Auto,) * len(axes), devices=jax.devices()[:gpus]
    )


def put(mesh, array, spec):
    return jax.device_put(array, NamedSharding(mesh, spec))


def mapped(mesh, function, specs, out):
    return jax.jit(jax.shard_map(function, mesh=mesh, in_specs=specs, out_specs=out))


def gathers(gpus):
    """Rows by kernels and by copy engines, again and again, with other rows each time."""
    mesh = mesh_of(gpus)
    for rows, n, k, turns in ((64, 256, 512, 24), (2048, 512, 2048, 8)):  # of each GPU
        multiply = partial(weft.jax.all_gather_matmul, axis_name="x", transpose_b=True, fused=True)
        function = mapped(mesh, multiply, (ROWS, ROWS), COLUMNS)
        b = whole(gpus * n, k, seed=1)
        given = put(mesh, b, ROWS)
        each = [put(mesh, whole(gpus * rows, k, seed=seed), ROWS) for seed in range(4)]
        want = [f64(a) @ f64(b).T for a in each]
        found = [function(each[turn % 4], given) for turn in range(turns)]
        for turn, result in enumerate(found):
            near(result, want[turn % 4])


def both_sums(a, b, bias, rows, all_):
    epilogue = {"bias": bias, "activation": "relu", "fused": True}
    return (
        weft.jax.matmul_reduce_scatter(a, b, "x", residual=rows, **epilogue),
        weft.jax.matmul_all_reduce(a, b, "x", residual=all_, **epilogue),
    )


def sums(gpus):
    """The rows of a sum, and all of it in one step and in two."""
    mesh = mesh_of(gpus)
    bias = whole(2048, seed=5)
    for m, n, k in ((128, 256, 256), (1024, 2048, 512)):
        a, b = whole(m, gpus * k, seed=2), whole(gpus * k, n, seed=3)
        residual = whole(m, n, seed=4)
        z = f64(a) @ f64(b) + f64(bias[:n])
        want = np.maximum(z, 0) + f64(residual)
        function = mapped(mesh, both_sums, (COLUMNS, ROWS, P(), ROWS, P()), (ROWS, P()))
        specs = (a, COLUMNS), (b, ROWS), (bias[:n], P()), (residual, ROWS), (residual, P())
        given = [put(mesh, x, spec) for x, spec in specs]
        found = [function(*given) for _ in range(12)]
        for scattered, reduced in found:
            near(scattered, want)
            near(reduced, want)
        first = f64(found[0][1])
        assert all((f64(reduced) == first).all() for _, reduced in found)  # bits are those of each run
        copies = [np.asarray(each.data, np.float64) for each in found[0][1].addressable_shards]
        assert all((each == copies[0]).all() for each in copies)


def layers(activation, fused, x, up, down):
    hidden = weft.jax.all_gather_matmul(x, up, "x", activation=activation, fused=fused)
    return weft.jax.matmul_reduce_scatter(hidden, down, "x", fused=fused)


def gradients(gpus):
    """Those of a layer, beside those by XLA's collectives, and of float64."""
    mesh = mesh_of(gpus)
    m, k, n = 512, 1024, 2048
    random = np.random.default_rng(0)
    x, up, down = (random.standard_normal(s).astype(BF16) / 8 for s in ((m, k), (k, n), (n, k)))
    specs = ROWS, COLUMNS, ROWS
    given = [put(mesh, *each) for each in zip((x, up, down), specs, strict=True)]

    def loss(activation, fused, *given):
        function = jax.shard_map(
            partial(layers, activation, fused), mesh=mesh, in_specs=specs, out_specs=ROWS
        )
        return (function(*given).astype(jnp.float32) ** 2).sum()

    for activation in (None, "relu", "silu"):
        found, want = (
            jax.jit(jax.grad(partial(loss, activation, fused), (0, 1, 2)))(*given) for fused in (True, False)
        )
        for one, other in zip(found, want, strict=True):
            near(one, f64(other), 0.03)
    hidden = f64(x) @ f64(up)
    out = hidden @ f64(down)
    near(jax.jit(jax.grad(partial(loss, None, True), 2))(*given), hidden.T @ (2 * out), 0.03)


def programs(gpus):
    """In loops and without jax.jit, with collectives of XLA that run meanwhile."""
    mesh = mesh_of(gpus)
    m, k = 1024, 1024
    x = whole(m, k)
    w = np.eye(k)[np.random.default_rng(1).permutation(k)].astype(BF16)  # whose transpose is the inverse

    def loop(x, w, back):
        def step(carried, _):
            rows, sums = carried
            more = jax.lax.psum(rows.astype(jnp.float32), "x")  # which NCCL may compute beside the product
            hidden = weft.jax.all_gather_matmul(rows, w, "x", fused=True)
            out = weft.jax.matmul_reduce_scatter(hidden, back, "x", fused=True)
            return (jnp.where(out >= 2, -2, out + 1).astype(out.dtype), sums + more), None

        start = x, jnp.zeros(x.shape, jnp.float32)
        return jax.lax.scan(step, start, None, length=40)[0]

    given = put(mesh, x, ROWS), put(mesh, w, COLUMNS), put(mesh, w.T, ROWS)
    function = mapped(mesh, loop, (ROWS, COLUMNS, ROWS), (ROWS, P()))
    results = [function(*given) for _ in range(5)]
    rows, total = f64(x), 0
    for _ in range(40):
        total = total + rows.reshape(gpus, -1, k).sum(0)
        rows = np.where(rows >= 2, -2, rows + 1)
    for found, more in results:
        assert (f64(found) == rows).all() and (f64(more) == total).all()

    eager = jax.shard_map(
        lambda x, w: weft.jax.all_gather_matmul(x, w, "x", fused=True),
        mesh=mesh,
        in_specs=(ROWS, COLUMNS),
        out_specs=COLUMNS,
    )
    near(eager(*given[:2]), f64(x) @ f64(w))


def teams(gpus):
    """Several teams on one mesh, whose calls follow each other in different orders."""
    if gpus != 4:
        return
    mesh = mesh_of(4, ("x", "y"), (2, 2))
    m, k, n = 256, 512, 512
    a, b = whole(m, k), whole(k, n, seed=1)

    def local(a, b):  # M over x and y, N over x
        rows = weft.jax.all_gather_matmul(a, b, "y", fused=True)
        both = weft.jax.all_gather_matmul(a, b, ("x", "y"), fused=True)
        sums = weft.jax.matmul_reduce_scatter(a, b, "x", fused=True)
        return rows, both, sums, weft.jax.matmul_all_reduce(a, b, ("y", "x"), fused=True)

    rows = P(("x", "y"), None)
    out = P("x", "y"), P(None, ("x", "y")), rows, P()
    wanted = jax.jit(
        jax.shard_map(
            lambda a, b: (
                jax.lax.all_gather(a, "y", tiled=True).astype(jnp.float32) @ b.astype(jnp.float32),
                jax.lax.all_gather(a, ("x", "y"), tiled=True).astype(jnp.float32) @ b.astype(jnp.float32),
                jax.lax.psum_scatter(a.astype(jnp.float32) @ b.astype(jnp.float32), "x", tiled=True),
                jax.lax.psum(a.astype(jnp.float32) @ b.astype(jnp.float32), ("x", "y")),
            ),
            mesh=mesh,
            in_specs=(rows, COLUMNS_OF_BOTH),
            out_specs=out,
        )
    )
    given = put(mesh, a, rows), put(mesh, b, COLUMNS_OF_BOTH)
    function = mapped(mesh, local, (rows, COLUMNS_OF_BOTH), out)
    for _ in range(10):
        for found, want in zip(function(*given), wanted(*given), strict=True):
            near(found, f64(want))


COLUMNS_OF_BOTH = P(None, ("x", "y"))


def scaled(gpus):
    """fp8 with scales, which travel with the rows."""
    mesh = mesh_of(gpus)
    f8, m, n, k = jnp.float8_e4m3fn, 256, 256 * gpus, 512
    random = np.random.default_rng(0)
    a, b = (random.standard_normal(s).astype(f8) for s in ((m, k), (n, k)))
    of_a = random.uniform(0.5, 2, (m, k // 128)).astype(np.float32)
    of_b = random.uniform(0.5, 2, (n // 128, k // 128)).astype(np.float32)

    def local(a, b, of_a, of_b):
        scales = of_a, of_b
        return weft.jax.all_gather_matmul(a, b, "x", transpose_b=True, scales=scales, fused=True)

    function = mapped(mesh, local, (ROWS, ROWS, ROWS, ROWS), COLUMNS)
    given = [put(mesh, each, ROWS) for each in (a, b, of_a, of_b)]
    left = f64(a) * np.repeat(of_a, 128, 1)
    right = f64(b) * np.repeat(np.repeat(of_b, 128, 1), 128, 0)
    for _ in range(3):
        near(function(*given), left @ right.T)


CHECKS = {each.__name__: each for each in (gathers, sums, gradients, programs, teams, scaled)}


def main():
    count = sum(device.platform == "gpu" for device in jax.devices())
    parser = scripts.parser(__doc__)
    parser.add_argument("check", nargs="*", help=", ".join(CHECKS))
    names = scripts.parsed(parser, 2, count).check
    if unknown := set(names) - CHECKS.keys():
        parser.error(f"there is no check {', '.join(sorted(unknown))}")
    for gpus in (2, 4):
        for name in names or CHECKS:
            if gpus <= count:
                start = time.perf_counter()
                CHECKS[name](gpus)
                print(f"{name} over {gpus} GPUs: well, {time.perf_counter() - start:.1f} s", flush=True)
    print("well")


if __name__ == "__main__":
    main()
