"""Arrays that are passed to other libraries and come from them, and GPUs that aren't the current one."""

import gc
import threading

import numpy as np
import pytest
from gpu_marks import GPU

import weft
from weft.launch import arrays, runtime

pytestmark = GPU


def test_pytorch_takes_a_device_array_in_place():
    torch = pytest.importorskip("torch")
    for dtype, name in (("f32", "float32"), ("bf16", "bfloat16"), ("f8E4M3FN", "float8_e4m3fn")):
        made = runtime.DeviceArray.from_numpy(np.arange(12).reshape(3, 4).astype(arrays.numpy_dtype(dtype)))
        seen = torch.from_dlpack(made)
        assert seen.data_ptr() == made.address and seen.dtype == getattr(torch, name)
        del made
        gc.collect()
        assert seen.float().cpu().tolist() == np.arange(12.0).reshape(3, 4).tolist()


def test_a_thread_that_has_used_no_gpu_launches():
    torch = pytest.importorskip("torch")
    a, b = (torch.randint(-4, 5, (256, 256), device="cuda").bfloat16() for _ in range(2))
    out = torch.zeros_like(a)
    weft.matmul(a, b, out=out)
    torch.cuda.synchronize()
    out.zero_()
    torch.cuda.synchronize()
    failed = []

    def multiply() -> None:
        try:
            weft.matmul(a, b, out=out)
        except weft.WeftError as error:
            failed.append(error)

    thread = threading.Thread(target=multiply)
    thread.start()
    thread.join()
    torch.cuda.synchronize()
    assert not failed and torch.equal(out, (a.float() @ b.float()).bfloat16())


def test_a_product_runs_on_the_gpu_of_its_arrays():
    torch = pytest.importorskip("torch")
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    shapes = [(512, 512, 512), (128, 256, 16384)]  # the second is split through a workspace
    for m, n, k in shapes:
        for gpu in (1, 0):
            a = torch.randint(-1, 2, (m, k), device=f"cuda:{gpu}").bfloat16()
            b = torch.randint(-1, 2, (n, k), device=f"cuda:{gpu}").bfloat16()
            out, want = torch.zeros(m, n, device=f"cuda:{gpu}"), a.float() @ b.T.float()
            for current in (0, 1):
                out.zero_()
                torch.cuda.synchronize(gpu)
                with torch.cuda.device(current):
                    weft.matmul(a, b, out=out, transpose_b=True)
                    assert torch.cuda.current_device() == current
                torch.cuda.synchronize(gpu)
                assert torch.equal(out, want), (m, n, k, gpu, current)


def test_a_product_of_jax_arrays_is_one():
    jax = pytest.importorskip("jax", reason="needs JAX, for its arrays")
    if jax.default_backend() != "gpu":
        pytest.skip("this JAX has no GPU")
    for name, result in (("bfloat16", "bfloat16"), ("float8_e4m3fn", "bfloat16"), ("int8", "int32")):
        a, b = (jax.random.randint(jax.random.key(i), (512, 512), -2, 3).astype(name) for i in range(2))
        found = weft.matmul(a, b, transpose_b=True)
        assert isinstance(found, jax.Array) and found.devices() == a.devices() and found.dtype == result
        want = np.asarray(a, np.float64) @ np.asarray(b, np.float64).T
        assert np.array_equal(np.asarray(found + 0, np.float64), want.astype(found.dtype).astype(np.float64))
