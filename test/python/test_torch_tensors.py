"""PyTorch tensors without ordinary memory are refused with one sentence and advice."""

import functools
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch isn't installed")
PLAIN = "weft.matmul: a: expected a plain tensor, got "
READ = "expected a plain tensor, got "
ADVICE = "give it plain tensors, or wrap the call in torch.library.custom_op"
SAID = {
    "plain": "right",
    "derived": "right",
    "parameter": "right",
    "parameter, frozen": "right",
    "lazy": "a parameter of a lazy module, without a shape yet",
    "dual": "right",
    "fake": f"{READ}a FakeTensor, which has no memory of its own: {ADVICE}",
    "wrapper": f"{READ}a Wrapper, which has no memory of its own: {ADVICE}",
    "meta": "expected a tensor on cpu or cuda, got one on meta",
    "sparse": f"{PLAIN}one of layout torch.sparse_coo (sparse, nested or blocked): call to_dense()",
    "blocked": f"{PLAIN}one of layout torch._mkldnn",
    "quantized": "a: expected a tensor of numbers, got torch.qint8: call dequantize() on it first",
    "gradient, None": "b: expected an array (NumPy, PyTorch, CuPy, JAX, DLPack or __cuda_array_interface__)",
    "gradient, number": "b: expected an array (NumPy",
    "gradient, text": "b: expected an array (NumPy",
    "gradient, bias": "bias: expected an array (NumPy",
    "gradient, out": "out: expected an array (NumPy",
    "gradient, quantized": "b: expected a tensor of numbers, got torch.qint8: call dequantize() on it first",
    "gradient, nested": f"weft.matmul: b: {READ}a nested one: {ADVICE}",
    "gradient, array": "a must not require gradients, which weft.matmul doesn't compute",
    "gradient, sparse": f"{PLAIN}one of layout torch.sparse_coo",
    "nested": f"{PLAIN}a nested one: {ADVICE}",
    "jagged": f"{PLAIN}a NestedTensor",
    "zero": f"{PLAIN}one without memory: {ADVICE}",
    "conjugate": "got torch.complex64",
    "negated": f"{PLAIN}a lazily negated one: call resolve_neg() on it first",
    "resized": f"{PLAIN}one whose storage was freed, or is smaller than the tensor",
    "storage": f"{PLAIN}torch.storage.UntypedStorage",
    "class": "got the class Tensor",
    "vmap": f"{READ}one that torch.func.vmap maps (weft.matmul takes a batch as a first dimension): ",
    "grad": f"{READ}one that torch.func transforms: {ADVICE}",
    "functionalize": "right",
    "make_fx": f"{READ}one that torch.fx or torch.export traces: {ADVICE}",
    "symbolic": f"{READ}torch.fx.proxy.Proxy: {ADVICE}",
    "jit": f"{READ}one that torch.jit traces: {ADVICE}",
    "export": f"{READ}a FakeTensor",
    "compile": f"{READ}one that torch.compile traces (torch.compiler.disable keeps a call out of it)",
}


# PyTorch takes seconds to import what these need.
SLOW = ("compile", "export", "fake", "make_fx", "jagged")


@functools.cache
def said(slow):
    """The answers of some cases, from a process of its own: other tests want none with PyTorch in it."""
    script = Path(__file__).with_name("torch_cases.py")
    names = [name for name in SAID if (name in SLOW) is slow]
    done = subprocess.run(
        [sys.executable, script, *names], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    "case", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in SAID]
)
def test_a_tensor_is_multiplied_or_refused_in_one_sentence(case):
    answer = said(case in SLOW)[case]
    assert SAID[case] in answer
    assert "\n" not in answer


@pytest.mark.parametrize(
    ("name", "advice"),
    [("complex64", "multiply real and imaginary parts on their own"), ("float8_e4m3fnuz", r"x\.float\(\)")],
)
def test_a_type_that_weft_lacks_is_refused_with_a_conversion(name, advice):
    import torch

    import weft

    a = torch.ones(16, 16).to(getattr(torch, name))
    with pytest.raises(
        weft.WeftError, match=f"weft.matmul: a: dtype must be .*, got torch.{name}: .*{advice}"
    ):
        weft.matmul(a, a)
