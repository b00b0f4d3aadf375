"""What `weft.matmul` says of tensors of PyTorch without plain memory; prints it as JSON for the cases of the
command line.
"""

import json
import sys
import warnings

import torch
import torch.autograd.forward_ad as forward

import weft
from weft.launch import arrays


class Derived(torch.Tensor):
    """Has its elements where any tensor has them."""


class Wrapper(torch.Tensor):
    """Has its elements in another tensor."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, device=inner.device)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        raise NotImplementedError


def read(a, b):
    """Reads both as a kernel's launch does."""
    arrays.view(a)
    arrays.view(b)
    return a


class Reader(torch.nn.Module):
    def forward(self, a, b):
        return read(a, b)


def dual(a, b):
    with forward.dual_level():
        return weft.matmul(forward.make_dual(a, a), b)


def fake(a, b):
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        return read(torch.empty(16, 16, dtype=a.dtype), b)


def resized(a, b):
    a = a.clone()
    a.untyped_storage().resize_(64)
    return weft.matmul(a, b)


def proxied(a, b):
    from torch.fx.experimental.proxy_tensor import make_fx

    return make_fx(read)(a, b)


def compiled(a, b):
    torch._dynamo.reset()
    return torch.compile(lambda x, y: read(x + 1, y), backend="eager")(a, b)


CASES = {
    "plain": weft.matmul,
    "derived": lambda a, b: weft.matmul(a.as_subclass(Derived), b),
    "parameter": lambda a, b: weft.matmul(torch.nn.Parameter(a), b),
    "parameter, frozen": lambda a, b: weft.matmul(torch.nn.Parameter(a, requires_grad=False), b),
    "lazy": lambda a, b: weft.matmul(torch.nn.parameter.UninitializedParameter(requires_grad=False), b),
    "dual": dual,
    "fake": fake,
    "wrapper": lambda a, b: read(Wrapper(a), b),
    "meta": lambda a, b: read(a.to("meta"), b),
    "sparse": lambda a, b: weft.matmul(a.to_sparse(), b),
    "blocked": lambda a, b: weft.matmul(a.float().to_mkldnn(), b),
    "quantized": lambda a, b: weft.matmul(torch.quantize_per_tensor(a.float(), 0.1, 0, torch.qint8), b),
    "gradient, None": lambda a, b: weft.matmul(a.requires_grad_(), None),
    "gradient, number": lambda a, b: weft.matmul(a.requires_grad_(), 2.0),
    "gradient, text": lambda a, b: weft.matmul(a.requires_grad_(), "b"),
    "gradient, bias": lambda a, b: weft.matmul(a.requires_grad_(), b, epilogue=weft.Epilogue("bias")),
    "gradient, out": lambda a, b: weft.matmul(a.requires_grad_(), b, out=3),
    "gradient, quantized": lambda a, b: weft.matmul(
        a.requires_grad_(), torch.quantize_per_tensor(b.float(), 0.1, 0, torch.qint8)
    ),
    "gradient, nested": lambda a, b: weft.matmul(a.requires_grad_(), torch.nested.nested_tensor([b, b])),
    "gradient, sparse": lambda a, b: weft.matmul(a.to_sparse().requires_grad_(), b),
    "gradient, array": lambda a, b: weft.matmul(a.requires_grad_(), b.float().numpy()),
    "nested": lambda a, b: weft.matmul(torch.nested.nested_tensor([a, a]), b),
    "jagged": lambda a, b: weft.matmul(torch.nested.nested_tensor([a, a], layout=torch.jagged), b),
    "zero": lambda a, b: weft.matmul(torch._efficientzerotensor((16, 16), dtype=a.dtype), b),
    "conjugate": lambda a, b: weft.matmul(torch.zeros(16, 16, dtype=torch.complex64).conj(), b),
    "negated": lambda a, b: weft.matmul(torch.zeros(16, 16, dtype=torch.complex64).conj().imag, b),
    "resized": resized,
    "storage": lambda a, b: weft.matmul(a.untyped_storage(), b),
    "class": lambda a, b: weft.matmul(torch.Tensor, b),
    "vmap": lambda a, b: torch.func.vmap(lambda x: read(x, b))(torch.stack([a, a])),
    "grad": lambda a, b: torch.func.grad(lambda x: read(x, b).sum())(a),
    "functionalize": lambda a, b: torch.func.functionalize(weft.matmul)(a, b),
    "make_fx": proxied,
    "symbolic": lambda a, b: torch.fx.symbolic_trace(Reader()),
    "jit": lambda a, b: torch.jit.trace(Reader(), (a, b)),
    "export": lambda a, b: torch.export.export(Reader(), (a, b)),
    "compile": compiled,
}


def said(case, a, b):
    """The error's text, or whether the result is the product."""
    try:
        found = case(a, b)
    except weft.WeftError as error:
        return str(error)
    return "right" if torch.equal(found.float(), a.float() @ b.float()) else "wrong"


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    a, b = (torch.randint(-1, 2, (16, 16)).bfloat16() for _ in "ab")
    json.dump({name: said(CASES[name], a.clone(), b.clone()) for name in sys.argv[1:]}, sys.stdout)
