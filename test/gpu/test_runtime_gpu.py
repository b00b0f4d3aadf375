"""Loading, launching, memory and timing on a GPU."""

import gc
import subprocess
import sys
import textwrap
import threading

import ml_dtypes
import numpy as np
import pytest
from gpu_marks import GPU

from weft.compiler import ptxas
from weft.errors import WeftError
from weft.launch import arrays, cuda_driver, runtime

pytestmark = GPU

HEAD = ".version 7.8\n.target sm_80\n.address_size 64\n"
AXPY = """
.visible .entry axpy(.param .u64 y, .param .u64 x, .param .f32 a, .param .u32 n)
{
.reg .pred %p; .reg .b32 %r<5>; .reg .b64 %d<4>; .reg .f32 %f<4>;
mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mad.lo.s32 %r1, %r1, %r2, %r3;
ld.param.u32 %r4, [n]; setp.ge.u32 %p, %r1, %r4;
@%p ret;
ld.param.u64 %d1, [y]; ld.param.u64 %d2, [x]; ld.param.f32 %f1, [a];
mul.wide.u32 %d3, %r1, 4; add.u64 %d1, %d1, %d3; add.u64 %d2, %d2, %d3;
ld.global.f32 %f2, [%d1]; ld.global.f32 %f3, [%d2]; fma.rn.f32 %f2, %f1, %f3, %f2; st.global.f32 [%d1], %f2;
ret;
}
"""
SHARED = """
.extern .shared .align 16 .b8 memory[];
.visible .entry last_byte(.param .u64 out, .param .u32 bytes)
{
.reg .b32 %r<4>; .reg .b64 %d<2>;
ld.param.u32 %r1, [bytes]; mov.u32 %r2, memory; add.u32 %r2, %r2, %r1;
mov.u32 %r3, 42; st.shared.u32 [%r2+-4], %r3; ld.volatile.shared.u32 %r3, [%r2+-4];
ld.param.u64 %d1, [out]; st.global.u32 [%d1], %r3;
ret;
}
"""
STRUCT = """
.visible .entry of_struct(.param .u64 out, .param .align 64 .b8 s[128])
{
.reg .b32 %r<2>; .reg .b64 %d<2>;
ld.param.u64 %d1, [out]; ld.param.u32 %r1, [s+124]; st.global.u32 [%d1], %r1;
ret;
}
"""
RANK = """
.visible .entry rank(.param .u64 out)
{
.reg .b32 %r<3>; .reg .b64 %d<3>;
mov.u32 %r1, %ctaid.x; mov.u32 %r2, %cluster_ctarank;
ld.param.u64 %d1, [out]; mul.wide.u32 %d2, %r1, 4; add.u64 %d1, %d1, %d2; st.global.u32 [%d1], %r2;
ret;
}
"""
FAULT = """
.visible .entry fault()
{
.reg .b64 %d<2>;
mov.u64 %d1, 0; st.global.u64 [%d1], %d1;
ret;
}
"""
WAIT = """
.visible .entry wait(.param .u64 nanoseconds)
{
.reg .pred %p; .reg .b64 %d<4>;
ld.param.u64 %d1, [nanoseconds]; mov.u64 %d2, %globaltimer;
again:
mov.u64 %d3, %globaltimer; sub.u64 %d3, %d3, %d2; setp.lt.u64 %p, %d3, %d1;
@%p bra again;
ret;
}
"""


def load(ptx: str) -> runtime.Loaded:
    return runtime.load(ptxas.assemble(HEAD + ptx, runtime.device().chip).cubin)


def axpy(loaded: runtime.Loaded, y: arrays.ArrayView, x: arrays.ArrayView, n: int, **options) -> None:
    args = [("P", y.address), ("P", x.address), ("f", 2.0), ("I", n)]
    loaded.launch("axpy", (-(-n // 128), 1, 1), (128, 1, 1), args, **options)


def test_the_device_is_described():
    device = runtime.device()
    assert device.name and device.chip.startswith("sm_")
    assert device.multiprocessors > 0 and device.shared_bytes >= 48 << 10 and device.memory_bytes > 1 << 30


@pytest.mark.parametrize("name", list(arrays._NUMPY))
def test_arrays_of_every_type_come_back(name):
    array = np.random.default_rng(0).integers(1, 3, (5, 7)).astype(arrays.numpy_dtype(name))
    again = runtime.DeviceArray.from_numpy(array).to_numpy()
    assert (again.dtype, again.shape, again.tobytes()) == (array.dtype, array.shape, array.tobytes())


def test_arrays_may_be_empty_strided_or_of_no_rank():
    for array in (
        np.zeros((0, 3), np.float32),
        np.float32(3) + np.zeros(()),
        np.arange(12.0).reshape(3, 4).T[::2],
    ):
        assert np.array_equal(runtime.DeviceArray.from_numpy(array).to_numpy(), array)


def test_a_device_array_has_a_view():
    made = runtime.DeviceArray((2, 3), "bf16")
    view = arrays.view(made)
    assert (view.address, view.strides, view.device, view.owner) == (made.address, (3, 1), "cuda", made)
    with pytest.raises(
        WeftError, match=r"expected an array of bf16 with shape \(2, 3\), got bf16 with shape \(3, 2\)"
    ):
        made.copy_from(np.zeros((3, 2), ml_dtypes.bfloat16))


def free_bytes() -> int:
    with cuda_driver.entered(cuda_driver.context(None)):
        free, _ = cuda_driver.call("asking the free memory", cuda_driver.api().cuMemGetInfo)
    return int(free)


def test_memory_is_given_back():
    """Arrays of half of the free memory fit one after another, and each takes its half while it lives. Other
    processes may take memory and give it back meanwhile: up to a quarter changes nothing.
    """
    runtime.DeviceArray((1,), "i8")  # so that the context's own memory is taken
    free = free_bytes()
    for _ in range(4):
        made = runtime.DeviceArray((free // 2,), "i8")
        with pytest.raises(WeftError, match="CUDA_ERROR_OUT_OF_MEMORY"):
            runtime.DeviceArray((free // 4 * 3,), "i8")
        del made


def test_too_much_memory_is_refused_in_words():
    with pytest.raises(WeftError, match=r"allocating \d+ bytes on .*CUDA_ERROR_OUT_OF_MEMORY: out of memory"):
        runtime.DeviceArray((1 << 50,), "i8")


def test_a_kernel_runs_on_its_arguments():
    x = np.arange(1000, dtype=np.float32)
    source, target = runtime.DeviceArray.from_numpy(x), runtime.DeviceArray.from_numpy(np.ones_like(x))
    axpy(load(AXPY), arrays.view(target), arrays.view(source), 999)
    expected = 1 + 2 * x
    expected[999] = 1
    assert np.array_equal(target.to_numpy(), expected)


def test_kernels_run_from_any_thread():
    loaded = load(AXPY)
    x = runtime.DeviceArray.from_numpy(np.ones(64, np.float32))
    threads = [
        threading.Thread(target=axpy, args=(loaded, arrays.view(x), arrays.view(x), 64)) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert np.array_equal(x.to_numpy(), np.full(64, 81, np.float32))


def test_dynamic_shared_memory_goes_up_to_the_devices_limit():
    loaded, out = load(SHARED), runtime.DeviceArray.from_numpy(np.zeros(1, np.int32))
    for size in (1024, 48 << 10, runtime.device().shared_bytes, 4096):
        out.copy_from(np.zeros(1, np.int32))
        loaded.launch("last_byte", (1, 1, 1), (1, 1, 1), [("P", out.address), ("I", size)], shared_bytes=size)
        assert out.to_numpy()[0] == 42


def test_structs_go_by_value():
    out = runtime.DeviceArray((1,), "i32")
    data = bytes(124) + (77).to_bytes(4, "little")
    load(STRUCT).launch("of_struct", (1, 1, 1), (1, 1, 1), [("P", out.address), data])
    assert out.to_numpy()[0] == 77


@pytest.mark.parametrize("size", [1, 2, 8, 16])
def test_clusters_have_the_size_asked_for(size):
    if not runtime.device().chip.startswith("sm_90"):
        pytest.skip("needs a chip with clusters of 16")
    out = runtime.DeviceArray((32,), "i32")
    loaded = runtime.load(ptxas.assemble(HEAD.replace("80", "90") + RANK, runtime.device().chip).cubin)
    loaded.launch("rank", (32, 1, 1), (32, 1, 1), [("P", out.address)], cluster=(size, 1, 1))
    assert np.array_equal(out.to_numpy(), np.arange(32) % size)


def test_wrong_launches_are_refused_in_words():
    loaded = load(AXPY)
    one = (1, 1, 1)
    with pytest.raises(WeftError, match="looking for kernel nonsense: CUDA_ERROR_NOT_FOUND"):
        loaded.launch("nonsense", one, one, [])
    with pytest.raises(WeftError, match=r"kernel axpy takes arguments of \[8, 8, 4, 4\] bytes, got \[8\]"):
        loaded.launch("axpy", one, one, [("P", 0)])
    with pytest.raises(
        WeftError, match=r"launching axpy with grid .*, block \(2000, 1, 1\), 0 bytes .*at most"
    ):
        loaded.launch("axpy", one, (2000, 1, 1), [])
    with pytest.raises(WeftError, match=r"loading a cubin of 8 bytes on .*CUDA_ERROR_"):
        runtime.load(b"nonsense")


def test_a_graph_outlives_the_kernels_that_it_captured():
    torch = pytest.importorskip("torch", reason="PyTorch isn't installed")
    x, y = torch.ones(1000, device="cuda"), torch.zeros(1000, device="cuda")
    loaded, graph = load(AXPY), torch.cuda.CUDAGraph()
    of_x, of_y = arrays.view(x), arrays.view(y)
    axpy(loaded, of_y, of_x, 1000)
    with torch.cuda.graph(graph):
        axpy(loaded, of_y, of_x, 1000, stream=torch.cuda.current_stream())
    del loaded
    gc.collect()
    graph.replay()
    torch.cuda.synchronize()
    assert y.tolist() == [4.0] * 1000


def test_a_closed_module_launches_nothing():
    loaded = load(AXPY)
    loaded.close()
    loaded.close()
    with pytest.raises(WeftError, match="its module is closed"):
        loaded.launch("axpy", (1, 1, 1), (1, 1, 1), [])


def test_time_is_the_gpus():
    """A kernel that waits takes as long, though its launch returns at once. Where processes share the GPU, it
    may take longer, but not in most launches.
    """
    loaded = load(WAIT)

    def milliseconds(waited: int) -> float:
        launch = loaded.prepare("wait", (1, 1, 1), (1, 1, 1), [("Q", waited * 10**6)])
        return runtime.time(lambda: runtime.launch(launch), 5)

    assert 0 < milliseconds(0) < 9 < milliseconds(10) < 100


def test_a_kernels_fault_is_reported_and_ends_nothing_else():
    check = f"""
        from weft.compiler import ptxas; from weft.launch import runtime
        from weft.errors import WeftError
        kept = runtime.DeviceArray((4,), "f32")
        loaded = runtime.load(ptxas.assemble({HEAD + FAULT!r}, runtime.device().chip).cubin)
        loaded.launch("fault", (1, 1, 1), (1, 1, 1), [])
        try:
            runtime.synchronize()
        except WeftError as error:
            print(error)
    """
    ran = subprocess.run([sys.executable, "-c", textwrap.dedent(check)], capture_output=True, text=True)
    assert ran.stderr == "" and ran.returncode == 0
    assert "waiting for the GPU: CUDA_ERROR_ILLEGAL_ADDRESS" in ran.stdout
    assert "launching fault with grid (1, 1, 1), block (1, 1, 1), 0 bytes of shared memory" in ran.stdout


def test_torch_shares_its_memory_context_and_stream():
    torch = pytest.importorskip("torch", reason="PyTorch isn't installed")
    x, y = torch.ones(1000, device="cuda"), torch.zeros(1000, device="cuda")
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    loaded = load(AXPY)
    with torch.cuda.stream(stream):
        axpy(loaded, arrays.view(y), arrays.view(x), 1000, stream=stream)
        y += 1
    stream.synchronize()
    assert torch.equal(y, torch.full_like(y, 3))
