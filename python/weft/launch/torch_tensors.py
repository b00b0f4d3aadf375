"""Finds PyTorch tensors without memory of their own. Doesn't import PyTorch."""

import functools
import operator
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import torch

Function = TypeVar("Function", bound=Callable[..., Any])
_ADVICE = "give it plain tensors, or wrap the call in torch.library.custom_op"


def is_tensor(array: object) -> bool:
    """Whether an array is a tensor. True for any object if PyTorch isn't imported."""
    return isinstance(array, getattr(sys.modules.get("torch"), "Tensor", object))


def complaint(tensor: "torch.Tensor") -> str | None:
    """Why a kernel can't read a tensor's memory, to follow "expected a plain tensor, "; None if it can.

    Any object counts as a tensor if PyTorch isn't imported.
    """
    torch = sys.modules.get("torch")
    if (kind := getattr(torch, "Tensor", None)) is not None:
        if not isinstance(tensor, kind):
            return f"got {type(tensor).__module__}.{type(tensor).__qualname__}: {_ADVICE}"
        if description := _recorded(tensor) or _without_memory(kind, tensor):
            return f"got {description}: {_ADVICE}"
    if str(tensor.layout) != "torch.strided":
        return f"got one of layout {tensor.layout} (sparse, nested or blocked): call to_dense() on it first"
    if tensor.is_neg():
        return "got a lazily negated one: call resolve_neg() on it first"
    if kind is not None and tensor.device.type != "meta" and not has_memory(tensor):
        return "got one whose storage was freed, or is smaller than the tensor"
    return None


def _recorded(tensor: object) -> str | None:
    """A tensor whose operations PyTorch records or transforms, in words; None for another."""
    private = private_functions()
    if private["torch._C._dynamo.eval_frame.get_eval_frame_callback"]() is not None:
        return "one that torch.compile traces (torch.compiler.disable keeps a call out of it)"
    if private["torch._C._get_tracing_state"]() is not None:
        return "one that torch.jit traces"
    if private["proxy mode"]() is not None:
        return "one that torch.fx or torch.export traces"
    if private["torch._C._functorch.is_batchedtensor"](tensor):
        return "one that torch.func.vmap maps (weft.matmul takes a batch as a first dimension)"
    if private["torch._C._functorch.is_functorch_wrapped_tensor"](tensor):
        return "one that torch.func transforms"
    return None


def _without_memory(kind: Any, tensor: "torch.Tensor") -> str | None:
    """A tensor without memory of its own, in words; None for another."""
    if type(tensor).__torch_dispatch__ is not kind.__torch_dispatch__:
        hint = " (to_local() returns a plain one)" * (type(tensor).__name__ == "DTensor")
        return f"a {type(tensor).__name__}, which has no memory of its own{hint}"
    private = private_functions()
    if private["torch.nn.parameter.is_lazy"](tensor):
        return "a parameter of a lazy module, without a shape yet"
    if tensor.is_nested:
        return "a nested one"
    if private["torch._is_functional_tensor"](tensor) or tensor._is_zerotensor():
        return "one without memory"
    return None


@functools.cache
def private_functions() -> dict[str, Callable[..., Any]]:
    """PyTorch's private functions by name. `_unknown` replaces those that this version lacks."""
    torch = sys.modules["torch"]
    names = (
        "torch._C._dynamo.eval_frame.get_eval_frame_callback",
        "torch._C._get_tracing_state",
        "torch._C._functorch.is_batchedtensor",
        "torch._C._functorch.is_functorch_wrapped_tensor",
        "torch.nn.parameter.is_lazy",
        "torch._is_functional_tensor",
        "torch._C._get_dispatch_mode",
        "torch._C._TorchDispatchModeKey.PROXY",
    )
    functions: dict[str, Any] = {}
    for name in names:
        try:
            functions[name] = operator.attrgetter(name.removeprefix("torch."))(torch)
        except AttributeError:
            functions[name] = _unknown
    mode = functools.partial(functions["torch._C._get_dispatch_mode"], functions.pop(names[-1]))
    return functions | {"proxy mode": mode}


def _unknown(*_: object) -> None:
    return None


def has_memory(tensor: "torch.Tensor") -> bool:
    """Whether a tensor's storage, which can be resized, still contains all elements."""
    if tensor.is_contiguous():
        elements = tensor.numel()
    else:
        steps = [(n - 1) * stride for n, stride in zip(tensor.shape, tensor.stride(), strict=True)]
        elements = sum(steps) + 1 if tensor.numel() else 0
    nbytes: int = tensor.untyped_storage().nbytes()
    return not elements or (tensor.storage_offset() + elements) * tensor.element_size() <= nbytes


def allows_tf32() -> bool:
    """Whether PyTorch may multiply f32 as tf32 (`torch.set_float32_matmul_precision`)."""
    torch: Any = sys.modules["torch"]
    precision = getattr(torch.backends.cuda.matmul, "fp32_precision", None)
    if precision is None:  # before PyTorch 2.9, of which later ones may raise an error here
        return bool(torch.get_float32_matmul_precision() != "highest")
    return bool(precision == "tf32")


def are_transformed() -> bool:
    """Whether PyTorch transforms or traces calls: a mode, `torch.func`, dual tensors, `torch.jit.trace`."""
    torch: Any = sys.modules["torch"]
    forward = sys.modules.get("torch.autograd.forward_ad")
    return (
        torch._C._len_torch_dispatch_stack() > 0
        or torch._C._get_tracing_state() is not None
        or torch._C._functorch.peek_interpreter_stack() is not None
        or (forward is not None and forward._current_level >= 0)
    )


def run_untraced(function: Callable[..., object]) -> None:
    """Lets torch.compile run a function, and what that calls, without tracing it. Does nothing without
    PyTorch, or in a version that has no such setting.
    """
    if "torch" not in sys.modules:
        return
    frames: Any = getattr(sys.modules["torch"]._C._dynamo, "eval_frame", None)
    strategy, action = (getattr(frames, name, None) for name in ("_FrameExecStrategy", "_FrameAction"))
    if strategy is not None and action is not None:
        frames.set_code_exec_strategy(function.__code__, strategy(action.SKIP, action.SKIP))


class _Own(dict[str, Any]):
    """Attributes that `functools.wraps` doesn't copy to another function, for which they would be wrong."""

    def keys(self) -> Any:
        names = super().keys()
        return [name for name in names if not name.startswith("_torchdynamo")]

    def __iter__(self) -> Any:  # without which `dict.update` doesn't call `keys`
        return iter(self.keys())


_traced_as_others: list[Callable[..., Any]] = []


def traced_as(other: Callable[..., object]) -> Callable[[Function], Function]:
    """Decorates a function in whose place torch.compile traces another one, with the same parameters."""

    def decorated(function: Function) -> Function:
        own = _Own(vars(function))
        own["_torchdynamo_inline"] = other  # in functions that torch.compile traces
        own["_torchdynamo_orig_callable"] = other  # in torch.compile(function)
        own["_torchdynamo_wrapper_id"] = id(function)
        function.__dict__ = own
        _traced_as_others.append(function)
        run_untraced(function)
        return function

    return decorated


def run_calls_untraced() -> None:
    """Lets torch.compile run functions that it traces as others, and what these call, where it runs their
    callers without tracing them, such as after a graph break in a `try`. For a PyTorch that is imported
    after Weft.
    """
    for function in _traced_as_others:
        run_untraced(function)


def outside_of_graphs(reason: str) -> Callable[[Function], Function]:
    """Excludes calls of a function from torch.compile's graphs; with `fullgraph`, the reason is its error."""

    def decorated(function: Function) -> Function:
        vars(function)["_torchdynamo_disable"] = True
        vars(function)["_torchdynamo_disable_msg"] = reason
        return function

    return decorated
