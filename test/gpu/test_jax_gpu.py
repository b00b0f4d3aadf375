"""`weft.jax` on a GPU: against `jax.numpy`, in graphs that XLA captures, and without waiting."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from gpu_marks import SM_90A, with_marks

pytest.importorskip("jax", reason="needs JAX")

START = """
import os
import sys
import jax, jax.numpy as jnp, numpy as np
import weft, weft.jax
from weft.multiply import xla_target

assert jax.default_backend() == "gpu"

def small(*shape, seed=0, dtype=jnp.bfloat16):
    return jax.random.randint(jax.random.PRNGKey(seed), shape, -1, 2).astype(dtype)

def exact(found, want):
    assert (np.asarray(found, np.float64) == np.asarray(want, np.float64)).all()

def f64(x):
    return np.asarray(x, np.float64)
"""

JIT = """
for m, n, k in ((128, 128, 128), (64, 512, 4096), (8, 512, 8192), (1000, 72, 520), (33, 65, 97)):
    a, b, bias = small(m, k), small(n, k, seed=1), small(n, seed=2)
    f = jax.jit(lambda a, b, bias: weft.jax.matmul(
        a, b, transpose_b=True, bias=bias, activation="relu", out_dtype=jnp.float32))
    exact(f(a, b, bias), np.maximum(f64(a) @ f64(b).T + f64(bias), 0))

for dtype in (jnp.float16, jnp.float32, jnp.float8_e4m3fn, jnp.int8):
    a, b = small(96, 256, dtype=dtype), small(160, 256, seed=1, dtype=dtype)
    exact(jax.jit(lambda a, b: weft.jax.matmul(a, b, transpose_b=True))(a, b), f64(a) @ f64(b).T)
print("well")
"""

GRAPHS = """
def layers(x, ws):
    for w in ws:
        x = weft.jax.matmul(x, w, out_dtype=jnp.float32)
        x = jnp.sign(x).astype(jnp.bfloat16)
    return x

def wanted(x, ws):
    for w in ws:
        x = np.sign(f64(x) @ f64(w))
    return x

f = jax.jit(layers)
for m, k in ((128, 512), (8, 4096)):  # the second needs workspaces
    ws = [small(k, k, seed=i + 1) for i in range(10)]
    kept = []
    for seed in range(6):  # at other addresses
        x = small(m, k, seed=seed)
        kept.append(f(x, ws))
        exact(kept[-1], wanted(x, ws))
    y = x
    outs = []
    for _ in range(50):
        y = f(y, ws)
        outs.append(y)
    again = x
    for out in outs:
        again = f(again, ws)
        assert (again == out).all()
print("launches", len(xla_target.TABLE.launches), "of their own",
      sum(1 for key in xla_target.TABLE.launches if key[2]))
print("well")
"""

GRADIENTS = """
x, w, bias = small(256, 512), small(512, 128, seed=1), small(128, seed=2)
batch = small(4, 64, 512, seed=3)
for activation in (None, "relu"):
    function = (lambda z: z) if activation is None else jax.nn.relu

    def loss(x, w, bias):
        y = weft.jax.matmul(x, w, bias=bias, activation=activation, out_dtype=jnp.float32)
        return (y * jnp.sign(y)).sum()

    def plain(x, w, bias):
        y = function(jnp.matmul(x, w, precision="highest") + bias)
        return (y * jnp.sign(y)).sum()

    wide = [each.astype(jnp.float32) for each in (x, w, bias)]
    found, want = (jax.jit(jax.grad(f, (0, 1, 2)))(*g) for f, g in ((loss, (x, w, bias)), (plain, wide)))
    for got, exact_ in zip(found, want):
        exact(got, exact_.astype(jnp.bfloat16))
mapped = jax.jit(jax.vmap(lambda x, w: weft.jax.matmul(x, w, out_dtype="f32"), (0, None)))
exact(mapped(batch, w), f64(batch) @ f64(w))
print("well")
"""

EAGER = """
import time
from weft.multiply import plans
a, b = small(256, 512), small(512, 128, seed=1)
exact(weft.matmul(a, b), f64(a) @ f64(b))
assert [type(plan).__name__ for plan in plans.kept._known.values()] == ["Handed"]

big = jnp.ones((8192, 8192), jnp.bfloat16) / 8192
step = jax.jit(weft.jax.matmul)
jax.block_until_ready((step(big, big), big @ big))
start, product = time.perf_counter(), big
for _ in range(40):
    product = product @ big
product = step(product, big)
queued = time.perf_counter() - start
product.block_until_ready()
done = time.perf_counter() - start
assert queued < done / 2, (queued, done)
assert abs(float(product[0, 0]) - 1 / 8192) < 1e-5
print("well")
"""


COPIES = """
import time
cases = [
    ((136, 33), (33, 73), jnp.bfloat16, {}),
    ((1000, 2051), (2051, 1030), jnp.bfloat16, {}),
    ((2, 136, 32), (2, 32, 74), jnp.float16, {}),
    ((33, 136), (64, 33), jnp.bfloat16, {"transpose_a": True, "transpose_b": True}),
    ((2048, 2048), (2048, 2048), jnp.float32, {}),
    ((2048, 2048), (2049, 2048), jnp.float8_e4m3fn, {"transpose_a": True, "transpose_b": True}),
    ((2048, 2049), (2048, 2049), jnp.int8, {"transpose_b": True}),
    ((1, 4097), (4097, 4096), jnp.bfloat16, {}),
    ((2, 1, 3, 64, 40), (1, 4, 1, 40, 72), jnp.bfloat16, {}),
    ((64, 0), (0, 72), jnp.bfloat16, {}),
]
for a, b, dtype, options in cases:
    a, b = small(*a, dtype=dtype), small(*b, seed=1, dtype=dtype)
    x, y = (np.swapaxes(f64(each), -1, -2) if options.get(name) else f64(each)
            for each, name in ((a, "transpose_a"), (b, "transpose_b")))
    out = jnp.int32 if dtype == jnp.int8 else jnp.float32
    for multiply in (weft.matmul, jax.jit(lambda a, b: weft.jax.matmul(a, b, out_dtype=out, **options))):
        given = {"out_dtype": out, **options} if multiply is weft.matmul else {}
        for _ in range(2):
            exact(multiply(a, b, **given), x @ y)

# Copies are not waited for, either.
big = jnp.ones((8192, 8192), jnp.bfloat16) / 8192
odd = jnp.ones((8192, 8191), jnp.bfloat16)
jax.block_until_ready((weft.matmul(big, odd), big @ big))
start, product = time.perf_counter(), big
for _ in range(40):
    product = product @ big
product = weft.matmul(product, odd)
queued = time.perf_counter() - start
product.block_until_ready()
done = time.perf_counter() - start
assert queued < done / 2, (queued, done)

# The time of a product with copies, beside JAX's own.
for name, f in (("weft", jax.jit(weft.jax.matmul)), ("jnp", jax.jit(jnp.matmul))):
    f(big, odd).block_until_ready()
    start = time.perf_counter()
    for _ in range(20):
        result = f(big, odd)
    result.block_until_ready()
    print(name, "8192 x 8191 x 8192:", round((time.perf_counter() - start) / 20 * 1e6), "us")
f32 = jnp.ones((4096, 4096), jnp.float32)
for name, f in (("weft", jax.jit(weft.jax.matmul)), ("jnp", jax.jit(jnp.matmul))):
    f(f32, f32).block_until_ready()
    start = time.perf_counter()
    for _ in range(50):
        result = f(f32, f32)
    result.block_until_ready()
    print(name, "4096 x 4096 x 4096 in f32:", round((time.perf_counter() - start) / 50 * 1e6), "us")
print("well")
"""

GROUPS = """
ends = jnp.asarray([1000, 1024, 1500, 2048], jnp.int32)
begins = [0, 1024, 1024, 1536]
rows = np.zeros((2048, 4))
for e, (i, j) in enumerate(zip(begins, ends)):
    rows[i:j, e] = 1
a, b, weights = small(2048, 256), small(4, 256, 128, seed=1), small(2048, 128, seed=2, dtype=jnp.float32)

@jax.jit
def loss(a, b):
    y = weft.jax.matmul(a, b, row_ends=ends, out_dtype=jnp.float32)
    return jnp.where(rows.sum(1)[:, None] > 0, y * weights, 0).sum()

of_a, of_b = jax.jit(jax.grad(loss, (0, 1)))(a, b)
exact(of_a, jnp.asarray(np.einsum("me,mn,ekn->mk", rows, f64(weights), f64(b))).astype(jnp.bfloat16))
exact(of_b, jnp.asarray(np.einsum("me,mk,mn->ekn", rows, f64(a), f64(weights))).astype(jnp.bfloat16))
print("well")
"""


def run(body: str, **environment: str) -> str:
    """In a process of its own: PyTorch holds this one's memory."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(START + body)],
        env=os.environ | {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"} | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.stdout.endswith("well\n"), done.stdout + done.stderr
    return done.stdout


@with_marks(SM_90A)
def test_jitted_products_are_those_of_numpy():
    run(JIT)


@with_marks(SM_90A)
@pytest.mark.parametrize("flags", ["", "graph_min_graph_size=1", "enable_command_buffer="])
def test_products_may_be_captured_in_graphs(flags):
    print(run(GRAPHS, XLA_FLAGS=flags and f"--xla_gpu_{flags}"))


@with_marks(SM_90A)
def test_nothing_is_waited_for():
    run(EAGER)


@with_marks(SM_90A)
def test_gradients_and_maps_are_those_of_numpy():
    run(GRADIENTS)


@with_marks(SM_90A)
def test_copies_of_operands_are_made_by_xla():
    print(run(COPIES))


@with_marks(SM_90A)
def test_gradients_of_groups():
    run(GROUPS)


@with_marks(SM_90A)
@pytest.mark.parametrize("check", ["gathers", "sums", "gradients", "programs", "teams", "scaled"])
def test_products_over_several_gpus(check):
    program = Path(__file__).with_name("jax_teams.py")
    done = subprocess.run(
        [sys.executable, program, check], capture_output=True, text=True, check=False, timeout=300
    )
    if "needs 2 GPUs" in done.stderr:
        pytest.skip("needs several GPUs")
    assert done.stdout.endswith("well\n"), done.stdout + done.stderr
