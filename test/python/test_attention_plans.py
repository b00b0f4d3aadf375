"""Plans of `weft.attention`: what they depend on, what later calls launch, and how few steps these take."""

import gc
import sys
import threading
import weakref
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import pytest

import weft
from weft.attend import gradient_plans, launches, plans
from weft.language.calls.kernels import KernelFunction
from weft.launch import arrays, libraries

torch = pytest.importorskip("torch", reason="plans are for PyTorch's tensors")
STREAM = 7
NAMES = ["q", "k", "v", "cu_seqlens_q", "cu_seqlens_k", "lengths", "page_table", "sinks", "out", "lse"]


@pytest.fixture
def gpu(monkeypatch):
    """Tensors of the CPU count as a GPU's. Has the launches that were checked (`slow`) and that a plan queued
    (`fast`), each as the name of the kernel, the stream and the addresses.
    """
    record = SimpleNamespace(slow=[], fast=[], written=[])
    view = arrays.view
    on_gpu = lambda array: replace(view(array), device="cuda", device_id=0)  # noqa: E731

    def call(self, *args, stream=None, **meta):
        record.slow.append((self.signature.name, stream, addresses(args)))

    def planned(self, *args, **meta):
        def launch(stream, *addresses):
            record.fast.append((self.signature.name, stream, addresses))

        return SimpleNamespace(launch=launch)

    monkeypatch.setattr(arrays, "view", on_gpu)
    monkeypatch.setattr(launches, "_multiprocessors", lambda _: 132)
    monkeypatch.setattr(libraries._Torch, "current_stream", lambda *_: lambda: STREAM)
    monkeypatch.setattr(libraries._Torch, "writer", lambda _: record.written.append)
    monkeypatch.setattr(KernelFunction, "__call__", call)
    monkeypatch.setattr(KernelFunction, "planned", planned)
    monkeypatch.setattr(KernelFunction, "compile", lambda *_, **options: SimpleNamespace(cubin=b""))
    for module in (plans, gradient_plans):
        monkeypatch.setattr(module, "_plans", plans.Plans(8))
    return record


def addresses(args):
    return tuple(each.data_ptr() for each in args if isinstance(each, torch.Tensor))


def tensors(queries=64, keys=64, heads=(4, 2), d=64, dtype=torch.float16):
    q = torch.empty(1, heads[0], queries, d, dtype=dtype)
    return q, *torch.empty(2, 1, heads[1], keys, d, dtype=dtype)


def misaligned(like, elements):
    """A tensor like another one that begins that many elements after a multiple of 32 bytes."""
    flat = torch.empty(like.numel() + 64, dtype=like.dtype)
    start = -flat.data_ptr() % 32 // like.element_size() + elements
    return flat[start:][: like.numel()].view(like.shape)


def test_later_calls_launch_with_addresses_of_their_own(gpu):
    weft.attention(*tensors())
    assert [name for name, *_ in gpu.slow] == ["forward"] and not gpu.fast
    for stream, handle in ((None, STREAM), (5, 5)):
        q, k, v = tensors()
        out, lse = weft.attention(q, k, v, return_lse=True, stream=stream)
        (name, queued, given) = gpu.fast.pop()
        by_name = dict(zip(NAMES, given, strict=True))
        assert (name, queued, len(gpu.slow)) == ("forward", handle, 1)
        for each, tensor in {"q": q, "k": k, "v": v, "out": out, "lse": lse}.items():
            assert by_name[each] == tensor.data_ptr(), each
        assert (out.shape, out.dtype) == (q.shape, q.dtype)
        assert (lse.shape, lse.dtype) == ((1, 4, 64), torch.float32)
    x, _, _ = tensors(heads=(2, 2))
    for _ in range(2):
        out = weft.attention(x, x, x)
    assert gpu.fast[-1][2][:3] == (x.data_ptr(),) * 3 and gpu.fast[-1][2][8] == out.data_ptr()


def test_optional_arrays_and_out_have_addresses_of_their_own(gpu):
    def integers(*shape):
        return torch.ones(shape, dtype=torch.int32)

    for _ in range(2):
        q, pages = tensors(queries=64)[0], tensors(keys=64)[1].expand(3, 2, 64, 64).contiguous()
        added = {"page_table": integers(1, 2), "lengths": integers(1), "sinks": torch.zeros(4)}
        out = torch.empty_like(q)
        assert weft.attention(q, pages, pages, out=out, splits=1, **added) is out
    by_name = dict(zip(NAMES, gpu.fast.pop()[2], strict=True))
    for name, tensor in {**added, "q": q, "out": out}.items():
        assert by_name[name] == tensor.data_ptr(), name
    assert gpu.written == [out]


def test_sinks_are_converted_in_each_call(gpu):
    sinks = torch.arange(4).to(torch.bfloat16)
    weft.attention(*tensors(), sinks=sinks)
    seen = []
    float_ = torch.Tensor.float
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.Tensor, "float", lambda each: seen.append(float_(each)) or seen[-1])
        weft.attention(*tensors(), sinks=sinks.clone())
    by_name = dict(zip(NAMES, gpu.fast[-1][2], strict=True))
    assert [by_name["sinks"]] == [each.data_ptr() for each in seen]


def test_what_a_call_makes_beside_its_results_is_made_on_its_stream(gpu, monkeypatch):
    """On another one, PyTorch would use the memory again while the kernels still run."""
    sinks, streams, made = torch.zeros(4, dtype=torch.bfloat16), [None], []

    @contextmanager
    def on(stream, device):
        streams.append(stream)
        yield
        streams.pop()

    def recorded(function):
        return lambda *args, **options: made.append(streams[-1]) or function(*args, **options)

    monkeypatch.setattr(libraries, "torch_stream", on)
    for owner, name in ((torch.Tensor, "float"), (torch, "empty"), (torch, "empty_strided")):
        monkeypatch.setattr(owner, name, recorded(getattr(owner, name)))
    for _ in range(2):
        given = tensors(queries=1, keys=8192)
        made.clear()
        weft.attention(*given, sinks=sinks, stream=5)
        assert made[:2] == [None, None] and len(made) >= 4 and set(made[2:]) == {5}
    assert len(gpu.fast) == 2


def test_a_plan_that_makes_nothing_leaves_pytorchs_stream_as_it_is(gpu, monkeypatch):
    """To change it takes as long as the rest of the call."""
    changed, on = [], libraries.torch_stream
    monkeypatch.setattr(libraries, "torch_stream", lambda *of: changed.append(of) or on(*of))
    for _ in range(2):
        changed.clear()
        weft.attention(*tensors(), stream=5)
    assert gpu.fast and not changed


def test_a_decode_queues_both_kernels(gpu):
    for _ in range(2):
        q, k, v = tensors(queries=1, keys=8192)
        out, lse = weft.attention(q, k, v, return_lse=True)
    assert [name for name, *_ in gpu.slow] == [name for name, *_ in gpu.fast] == ["decode", "combine"]
    decode, (parts, sums, _, *results) = gpu.fast[0][2], gpu.fast[1][2]
    assert decode[:3] == addresses((q, k, v)) and decode[-2:] == (parts, sums)
    assert tuple(results) == addresses((out, lse))
    assert len({parts, sums, *results}) == 4


BASE = {"causal": False, "scale": 0.5, "window": (8, 8), "softcap": 2.0, "splits": 1}
OTHERS = {
    "causal": {"causal": True},
    "scale": {"scale": 0.25},
    "window": {"window": (8, 9)},
    "softcap": {"softcap": 3.0},
    "splits": {"splits": 2},
    "layout": {"layout": "bthd"},
    "lengths": {"lengths": torch.ones(1, dtype=torch.int32)},
    "sinks": {"sinks": torch.ones(4)},
    "type of sinks": {"sinks": torch.ones(4).half()},
}


def test_each_option_has_plans_of_its_own(gpu):
    for options in ({}, *OTHERS.values()):
        before = len(gpu.slow)
        q, k, v = tensors(queries=4, keys=4, heads=(4, 4))
        weft.attention(q, k, v, **{**BASE, **options})
        assert len(gpu.slow) > before, options
        before = len(gpu.slow)
        weft.attention(q.clone(), k.clone(), v.clone(), **{**BASE, **options})
        assert len(gpu.slow) == before, options


@pytest.mark.parametrize("number", [0, 1, 2])
def test_each_property_of_an_array_has_plans_of_its_own(gpu, number):
    given = list(tensors(heads=(2, 2)))
    weft.attention(*given)
    transposed = given[number].transpose(1, 2).contiguous().transpose(1, 2)
    for array in (transposed, misaligned(given[number], 8)):
        before = len(gpu.slow)
        weft.attention(*given[:number], array, *given[number + 1 :])
        assert len(gpu.slow) == before + 1
    longer = [torch.empty(1, 2, 128, 64, dtype=torch.float16) for _ in given]
    for size in (64, 48):  # with equal strides
        before = len(gpu.slow)
        of_queries, of_keys = (size, 64) if number == 0 else (64, size)
        weft.attention(longer[0][:, :, :of_queries], *(each[:, :, :of_keys] for each in longer[1:]))
        assert len(gpu.slow) == before + 1
    for changed in (tensors(queries=65), tensors(keys=65), tensors(dtype=torch.bfloat16), tensors(d=72)):
        before = len(gpu.slow)
        weft.attention(*changed)
        assert len(gpu.slow) == before + 1
    q, *_ = tensors(heads=(2, 2))
    for out in (q, q.transpose(1, 2).contiguous().transpose(1, 2), misaligned(q, 8)):
        before = len(gpu.slow)
        weft.attention(*given, out=out)
        assert len(gpu.slow) == before + 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"causal": 0}, "causal must be True or False"),
        ({"scale": True}, "scale must be a positive number"),
        ({"softcap": True}, "softcap must be a positive number"),
        ({"splits": 1.0}, "splits must be in"),
        ({"splits": True}, "splits must be in"),
        ({"window": (True, 1)}, "left and right of window"),
        ({"window": (1.0, 1)}, "left and right of window"),
        ({"window": 1}, "window must be"),
        ({"window": (None,)}, "window must be"),
        ({"window": {1, 2}}, "window must be"),
        ({"layout": []}, "layout must be"),
    ],
    ids=str,
)
def test_what_equals_an_option_of_a_plan_is_not_taken_for_it(gpu, options, message):
    legal = {"causal": False, "scale": 1, "softcap": 1, "splits": 1, "window": (1, 1)}
    for known in (legal, {**legal, "window": None}):
        weft.attention(*tensors(), **known)
    with pytest.raises(weft.WeftError, match=message):
        weft.attention(*tensors(), **{**legal, **options})
    assert weft.attention(*tensors(), **{**legal, "window": [1, 1]}) is not None
    assert (len(gpu.slow), len(gpu.fast)) == (2, 1)


def test_a_call_under_gradients_is_one_of_the_operator(gpu):
    for _ in range(2):
        weft.attention(*tensors())
    gpu.slow.clear()
    gpu.fast.clear()
    for number in range(3):
        q, k, v = (each.requires_grad_() for each in tensors())
        assert weft.attention(q, k, v).requires_grad
        assert (len(gpu.slow), len(gpu.fast)) == (1, number)
    with torch.no_grad():
        for _ in range(2):
            assert not weft.attention(q, k, v).requires_grad
    assert (len(gpu.slow), len(gpu.fast)) == (2, 3)
    assert weft.attention(q, k, v).requires_grad
    for option in ({"causal": True}, {"scale": 0.5}, {"scale": 0.25}, {"window": (3, 4)}, {"splits": 2}):
        gpu.slow.clear()
        for _ in range(2):
            weft.attention(q, k, v, **option)
        assert len(gpu.slow) == option.get("splits", 1), option


def test_plans_keep_no_tensor_of_the_caller_and_are_limited(gpu):
    kept = []
    for number in range(20):
        given = (*tensors(queries=number + 1), torch.ones(4).half())
        out = torch.empty_like(given[0])
        weft.attention(*given[:3], sinks=given[3], out=out)
        weft.attention(*given[:3], sinks=given[3])
        kept += [weakref.ref(each) for each in (*given, out)]
        gpu.written.clear()
    assert 0 < len(plans._plans) <= 8
    del given, out
    gc.collect()
    assert not any(each() is not None for each in kept)


def test_any_number_of_threads_may_call(gpu):
    def calls(queries):
        for _ in range(20):
            q, k, v = tensors(queries=queries)
            out = weft.attention(q, k, v)
            mine.append((q.data_ptr(), out.data_ptr()))
            alive.append((q, out))

    mine, alive = [], []
    threads = [threading.Thread(target=calls, args=(8 + n % 2,)) for n in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    launched = [(given[0], given[8]) for _, _, given in gpu.slow + gpu.fast]
    assert sorted(launched) == sorted(mine)


@pytest.mark.parametrize(("keys", "most"), [(64, 30), (8192, 40)], ids=["forward", "decode"])
def test_a_call_with_a_plan_takes_few_steps(gpu, keys, most):
    """As a profiler counts calls of functions of Python and of C."""
    q, k, v = tensors(queries=1, keys=keys)
    weft.attention(q, k, v, causal=True, window=(64, 0))
    steps = []

    def count(frame, event, what):
        if "call" in event:
            steps.append(frame.f_code.co_name if event == "call" else str(what))

    sys.setprofile(count)
    try:
        weft.attention(q, k, v, causal=True, window=(64, 0))
    finally:
        sys.setprofile(None)
    assert gpu.fast and len(steps) <= most, steps


def gradients_of(out, *inputs):
    d_out = torch.empty_like(out)
    return d_out, torch.autograd.grad(out, inputs, d_out, retain_graph=True)


def test_planned_gradients_leave_out_the_operator(gpu):
    from weft.torch import attention as operators

    inputs = [each.requires_grad_() for each in tensors()]
    out = weft.attention(*inputs)
    gradients_of(out, *inputs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(operators, "_attend_backward", None)
        gradients_of(out, *inputs)
    (dq,) = torch.autograd.grad(out, inputs[:1], torch.empty_like(out), create_graph=True)
    with pytest.raises(weft.WeftError, match="gradients of its gradients are not computed"):
        dq.sum().backward()


BACKWARD = ["products_of_outputs", "gradients", "convert_queries"]


def test_the_kernels_of_gradients_compile_at_the_same_time(gpu, monkeypatch):
    all_of_them, launched_before = threading.Barrier(len(BACKWARD), timeout=30), []

    class Compiled:
        @property
        def cubin(self):
            launched_before.append(len(gpu.slow))
            all_of_them.wait()

    inputs = [each.requires_grad_() for each in tensors()]
    out, order = weft.attention(*inputs), []
    compile_ = lambda kernel, *_, **options: order.append(kernel.signature.name) or Compiled()  # noqa: E731
    monkeypatch.setattr(KernelFunction, "compile", compile_)
    gradients_of(out, *inputs)
    assert launched_before == [1] * len(BACKWARD) and not all_of_them.broken
    assert order[0] == "gradients", "what takes longest begins first"
    assert [name for name, *_ in gpu.slow] == ["forward", *BACKWARD]


@pytest.mark.parametrize(
    "deterministic, heads", [(False, 4), (False, 480), (True, 4)], ids=["few heads", "many", "deterministic"]
)
def test_later_gradients_launch_with_addresses_of_their_own(gpu, deterministic, heads):
    d = 128 if heads > 4 else 64
    kernels = ["products_of_outputs", "gradients", "gradients"] if deterministic else BACKWARD
    for call in range(3):
        inputs = [each.requires_grad_() for each in tensors(heads=(heads, heads // 2), d=d)]
        out = weft.attention(*inputs, causal=True, deterministic=deterministic)
        gpu.slow.clear(), gpu.fast.clear()
        d_out, found = gradients_of(out, *inputs)
        assert [name for name, *_ in gpu.slow] == (kernels if call == 0 else [])
        assert [name for name, *_ in gpu.fast] == ([] if call == 0 else kernels)
    first, *others = (given for _, _, given in gpu.fast)
    q, k, o, do, lse, d_lse, starts, *_, base, delta, peaks, _, sums, done = first
    assert (q, k, o, do) == addresses((*inputs[:2], out, d_out))
    assert len({d_lse, starts, base, delta, peaks, sums}) == 6
    assert {stream for _, stream, _ in gpu.fast} == {STREAM}
    assert others[0][:9] == (*addresses((*inputs, d_out)), base, delta, peaks, o, d_lse)
    assert [each.shape for each in found] == [each.shape for each in inputs]
    dq, dk, dv = addresses(found)
    if deterministic:
        assert others[0][13:15] == (dk, dv) and others[0][12] != dq
        assert others[1][12] == dq and not {dk, dv} & {*others[1]}
    else:
        assert others[0][12:16] == (dq, dk, dv, sums)
        assert others[1][:2] == (sums, starts) and others[1][3:] == (dq,)
        rows = 64 * heads
        assert (delta, peaks, sums) == tuple(base + 4 * rows * number for number in (1, 2, 4))
        if heads > 4:  # which are so many that delta of later ones is computed beside products
            assert others[0][16:] == (delta, done) and done == sums + 4 * rows * d
    assert lse not in (0, base, delta)


OTHER_GRADIENTS = {
    "causal": ({"causal": True}, {}),
    "window": ({"window": (3, 3)}, {}),
    "softcap": ({"softcap": 2.0}, {}),
    "deterministic": ({"deterministic": True}, {}),
    "queries": ({}, {"queries": 32}),
    "heads": ({}, {"heads": (2, 2)}),
    "type": ({}, {"dtype": torch.bfloat16}),
}


def test_each_option_has_plans_of_its_own_for_gradients(gpu):
    for options, sizes in ({}, {}), *OTHER_GRADIENTS.values():
        for planned in (False, True):
            inputs = [each.requires_grad_() for each in tensors(**sizes)]
            out = weft.attention(*inputs, **options)
            gpu.slow.clear(), gpu.fast.clear()
            gradients_of(out, *inputs)
            assert bool(gpu.fast) == planned and bool(gpu.slow) != planned, (options, sizes)


def test_gradients_of_copies_and_of_sinks_have_no_plans(gpu):
    for _ in range(2):
        inputs = [each.requires_grad_() for each in tensors()]
        out = weft.attention(*inputs)
        gpu.fast.clear()
        torch.autograd.grad(out.sum(), inputs)  # whose gradient is one number, which TMA can't copy
        assert not gpu.fast
        sinks = torch.zeros(4, requires_grad=True)
        with_sinks = weft.attention(*inputs, sinks=sinks)
        gpu.fast.clear()
        *_, of_sinks = torch.autograd.grad(with_sinks, (*inputs, sinks), torch.empty_like(out))
        assert not gpu.fast and of_sinks.shape == (4,)


def test_gradients_of_some_rows_are_zeros_elsewhere(gpu):
    for _ in range(2):
        inputs = [each.requires_grad_() for each in tensors()]
        out = weft.attention(*inputs, lengths=torch.ones(1, dtype=torch.int32))
        gpu.fast.clear()
        _, found = gradients_of(out, *inputs)
    assert gpu.fast and not any(each.count_nonzero() for each in found)


def test_outputs_that_overlap_are_refused_in_later_calls(gpu):
    for _ in range(2):
        q, k, v = tensors(heads=(2, 2))
        weft.attention(q, k, v, out=torch.empty_like(q))
    weft.attention(q, k, v, out=q)
    assert (len(gpu.slow), len(gpu.fast)) == (1, 2)
    with pytest.raises(weft.WeftError, match="out must not overlap v"):
        weft.attention(q, k, v, out=v)
    assert len(gpu.fast) == 2
