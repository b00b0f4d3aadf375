"""`weft.matmul` with new arrays on every call, from many threads, and with JAX's on XLA's stream."""

import os
import subprocess
import sys
import textwrap
import threading

import pytest
from gpu_marks import SM_90A

import weft
from weft.errors import WeftError
from weft.launch import runtime
from weft.multiply import plans

torch = pytest.importorskip("torch")
pytestmark = SM_90A


def small(*shape, dtype=torch.bfloat16):
    """Integers whose sums are exact."""
    return torch.randint(-1, 2, shape, device="cuda").to(dtype)


@pytest.fixture(autouse=True)
def _no_plans():
    plans.kept.clear()
    yield
    plans.kept.clear()


@pytest.mark.parametrize("m", [1, 64, 300])
@pytest.mark.parametrize("transposed", [False, True])
def test_new_arrays_are_multiplied_by_the_plan_of_others(m, transposed):
    for _ in range(5):
        a, w = small(m, 512), small(512, 256)
        b = w.t().contiguous().t() if transposed else w
        want = a.double() @ b.double()
        assert (weft.matmul(a, b, out_dtype="f32") == want).all()
        out = torch.full((m, 256), torch.nan, device="cuda")
        assert weft.matmul(a, b, out=out) is out and (out == want).all()
    assert len(plans.kept) == 2


def test_an_epilogue_and_scales_of_new_arrays():
    for _ in range(3):
        a, b, bias, residual = small(64, 256), small(256, 128), small(128), small(64, 128)
        epilogue = weft.Epilogue(bias, "relu", residual)
        found = weft.matmul(a, b, epilogue=epilogue, out_dtype="f32")
        assert (found == (a.double() @ b.double() + bias.double()).relu() + residual.double()).all()
        x, w = (small(rows, 256, dtype=torch.float8_e4m3fn) for rows in (64, 128))
        scale_a = torch.randint(1, 3, (2, 64), device="cuda").float().t()
        scale_b = torch.randint(1, 3, (1, 2), device="cuda").float()
        found = weft.matmul(x, w, transpose_b=True, scales=(scale_a, scale_b), out_dtype="f32")
        spread = x.double() * scale_a.double().repeat_interleave(128, 1)
        assert (found == spread @ (w.double() * scale_b.double().repeat_interleave(128, 1)).t()).all()
    assert len(plans.kept) == 2


def test_a_misaligned_view_takes_a_plan_of_its_own():
    memory = small(64, 544)
    b = small(512, 128)
    for column in (0, 16, 1, 0, 1):  # 16 elements are 32 bytes
        a = memory[:, column : column + 512]
        assert (weft.matmul(a, b, out_dtype="f32") == a.double() @ b.double()).all()
    assert len(plans.kept) == 2


def test_memory_and_plans_are_bounded_over_many_arrays(patch):
    """Of this process: others may use the GPU, too."""
    b, made = small(256, 128), []
    for turn in range(3):
        for rows in range(1, 40):
            a = small(rows, 256)
            assert (weft.matmul(a, b) == (a.double() @ b.double()).bfloat16()).all()
        assert len(plans.kept) == 39
        if turn == 0:
            reserved = torch.cuda.memory_reserved()
            for kind in (runtime.DeviceArray, runtime.Loaded):
                patch.setattr(kind, "__init__", lambda *args, **_: made.append(args))
    assert torch.cuda.memory_reserved() - reserved < 64 << 20 and not made


@pytest.mark.parametrize("streams", [False, True], ids=["one stream", "a stream each"])
def test_threads_multiply_at_the_same_time(streams):
    """With parts of K, whose workspaces streams don't share."""
    wrong = []
    b = small(4096, 512)
    shapes = [(m, 4096) for m in (1, 16, 64, 200)]

    def work(seed):
        stream = torch.cuda.Stream() if streams else torch.cuda.default_stream()
        with torch.cuda.stream(stream):
            for turn in range(60):
                a = small(*shapes[(seed + turn) % len(shapes)])
                if not (weft.matmul(a, b, out_dtype="f32") == a.double() @ b.double()).all():
                    wrong.append((seed, turn))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    torch.cuda.synchronize()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and len(plans.kept) == len(shapes)


def test_a_graph_keeps_what_its_plan_captured():
    a, b = small(64, 4096), small(4096, 512)
    weft.matmul(a, b, out_dtype="f32")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = weft.matmul(a, b, out_dtype="f32")
    for _ in range(3):
        a.copy_(small(64, 4096))
        graph.replay()
        assert (out == a.double() @ b.double()).all()
        weft.matmul(small(64, 4096), b)  # the same plan, beside the graph


def test_what_pytorch_records_goes_to_the_operator_after_a_plan_is_known():
    a, b = small(64, 256), small(256, 128)
    product = weft.matmul(a, b)
    weights = b.clone().requires_grad_()
    with torch.no_grad():
        assert weft.matmul(a, weights).grad_fn is None
    recorded = weft.matmul(a, weights)
    assert (recorded == product).all()
    recorded.sum().backward()
    assert (weights.grad == a.double().sum(0)[:, None]).all()
    batch = small(3, 64, 256)
    mapped = torch.func.vmap(lambda x: weft.matmul(x, b))(batch)
    assert (mapped == torch.stack([weft.matmul(x, b) for x in batch])).all()
    with pytest.raises(WeftError, match="must not overlap"):
        weft.matmul(a[:, :128], b[:128], out=a[:, 64:192])


JAX = """
import time
import jax, jax.numpy as jnp, numpy as np
import weft
from weft.multiply import plans

def small(*shape, seed=0):
    return jax.random.randint(jax.random.PRNGKey(seed), shape, -1, 2).astype(jnp.bfloat16)

for seed in range(4):
    a, b, bias = small(64, 4096, seed=seed), small(4096, 512, seed=seed + 9), small(512, seed=seed)
    want = np.asarray(a, np.float64) @ np.asarray(b, np.float64)
    found = weft.matmul(a, b, out_dtype="f32")
    assert isinstance(found, jax.Array) and (np.asarray(found, np.float64) == want).all()
    found = weft.matmul(a, b, out_dtype="f32", epilogue=weft.Epilogue(bias=bias))
    assert (np.asarray(found, np.float64) == want + np.asarray(bias, np.float64)).all()
assert [type(plan).__name__ for plan in plans.kept._known.values()] == ["Handed"] * 2

big = jnp.ones((8192, 8192), jnp.bfloat16) / 8192
jax.block_until_ready((weft.matmul(big, big), big @ big))
start, product = time.perf_counter(), big
for _ in range(40):
    product = product @ big
product = weft.matmul(product, big)
queued = time.perf_counter() - start
product.block_until_ready()
done = time.perf_counter() - start
assert queued < done / 2, (queued, done)
assert abs(float(product[0, 0]) - 1 / 8192) < 1e-5
print("well")
"""


def test_products_of_jax_wait_for_nothing():
    """In a process of its own: PyTorch holds this one's memory."""
    pytest.importorskip("jax")
    environment = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(JAX)],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.stdout == "well\n", done.stderr
