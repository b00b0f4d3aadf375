"""Operators under `torch.func` and in forward mode, which ignore the gradients that operators register."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import torch
from torch import Tensor
from torch._functorch.autograd_function import VmapInfo
from torch._ops import OpOverload
from torch.autograd import forward_ad
from torch.autograd.function import FunctionCtx

from weft.errors import WeftError
from weft.launch import libraries, torch_tensors
from weft.torch.operators import LIBRARY
from weft.torch.signatures import Dims, Gradients, Kernel, Operand

Save = Callable[..., None]
"""A function `(ctx, inputs, keyword_only_inputs, output)`, as PyTorch names its parameters."""


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def is_transformed() -> bool:
    """Whether `torch.func` or `torch.vmap` transforms calls."""
    transform = torch._C._functorch.peek_interpreter_stack()
    return transform is not None and transform.key() != torch._C._functorch.TransformType.Functionalize


PLAIN = (torch.Tensor, torch.nn.Parameter)
"""The types of tensors that kernels multiply without PyTorch's dispatcher."""


def are_plain(tensors: Sequence[Tensor]) -> bool:
    """Whether PyTorch at most records gradients of these tensors and casts them, so that it needs to see no
    operator, unless it compiles.
    """
    if torch_tensors.are_transformed():
        return False
    strided = torch.strided
    for each in tensors:
        if type(each) not in PLAIN or each.layout is not strided or each.is_meta or each.is_nested:
            return False
    return True


def is_autocast() -> bool:
    """Whether `torch.autocast` is on."""
    return torch.is_autocast_enabled("cuda") or torch.is_autocast_enabled("cpu")


def is_watched(tensors: Sequence[Tensor]) -> bool:
    """`libraries.TORCH.is_watching`, in less time for plain tensors."""
    if not is_autocast() and are_plain(tensors):
        return torch.is_grad_enabled() and any(each.requires_grad for each in tensors)
    return libraries.TORCH.is_watching(tensors)


def has_tangent(tensor: Tensor) -> bool:
    """Whether PyTorch's forward mode differentiates operations on a tensor. `torch.compile` may trace this:
    it would iterate over `sys.modules`, to which other threads add.
    """
    return libraries.is_dual(tensor, forward_ad)


def are_transformed(*operands: Tensor) -> bool:
    """Whether calls are transformed, or an operand is a tensor with a tangent."""
    return is_transformed() or any(isinstance(each, torch.Tensor) and has_tangent(each) for each in operands)


class Arguments:
    """The arguments of an operator as one list, which a `torch.autograd.Function` takes."""

    def __init__(self, overload: OpOverload) -> None:
        schema = overload._schema.arguments
        self.operands = tuple(each.name for each in schema if not each.kwarg_only)
        self.defaults = {each.name: each.default_value for each in schema if each.kwarg_only}

    def listed(self, operands: tuple[Tensor, ...], options: Mapping[str, object]) -> list[Tensor]:
        """All arguments. Operands that are missing are None."""
        missing = [None] * (len(self.operands) - len(operands))
        return [*operands, *missing, *{**self.defaults, **options}.values()]

    def apart(self, inputs: tuple[Tensor, ...]) -> tuple[tuple[Tensor, ...], dict[str, object]]:
        """The operands and the options of a list."""
        count = len(self.operands)
        return inputs[:count], dict(zip(self.defaults, inputs[count:], strict=True))


def differentiable(
    overload: OpOverload,
    save: Save,
    backward: Callable[..., Gradients],
    refusal: str | None = None,
    forward_mode: Kernel | None = None,
) -> Kernel:
    """Registers the gradients of an operator. Returns a function that calls the operator, and computes these
    gradients under `torch.func`, too. `torch.vmap` maps it one by one. In forward mode, it raises WeftError,
    with the `refusal` if one is given.

    With `forward_mode`, which returns the tangent of the result, and a rule of `torch.vmap` for the operator,
    PyTorch transforms it. The saved tensors are then the result and all operands.
    """
    arguments, name = Arguments(overload), overload._schema.name
    caller = name.replace("::", ".")
    why = refusal or (
        f"{caller}: derivatives in forward mode are not computed: use those in backward mode "
        "(torch.func.vjp, jacrev)"
    )

    def save_operands(ctx: FunctionCtx, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        save(ctx, inputs, {}, output)

    context = save if arguments.defaults else save_operands  # PyTorch passes no empty dictionary
    torch.library.register_autograd(name, backward, setup_context=context, lib=LIBRARY)

    class Transformed(torch.autograd.Function):  # type: ignore[misc]
        generate_vmap_rule = forward_mode is not None

        @staticmethod
        def forward(*inputs: Tensor) -> Tensor:
            operands, options = arguments.apart(inputs)
            result = overload(*operands, **options)
            return tuple(result) if isinstance(result, list) else result

        @staticmethod
        def setup_context(ctx: FunctionCtx, inputs: tuple[Tensor, ...], output: Tensor) -> None:
            operands, options = arguments.apart(inputs)
            save(ctx, operands, options, output)
            if forward_mode is not None:
                # The same for both, since torch.vmap keeps one list of their mapped dimensions.
                ctx.save_for_backward(output, *operands)
                ctx.save_for_forward(output, *operands)

        @staticmethod
        def backward(ctx: FunctionCtx, *gradients: Tensor) -> Gradients:
            return *backward(ctx, *gradients), *(None for _ in arguments.defaults)

        if forward_mode is None:

            @staticmethod
            def vmap(info: VmapInfo, in_dims: Dims, *inputs: Tensor) -> tuple[Tensor, int]:
                return one_by_one(Transformed.apply, info.batch_size, in_dims, inputs)

        @staticmethod
        def jvp(ctx: FunctionCtx, *tangents: Tensor) -> Tensor:
            if forward_mode is None:
                raise WeftError(why)
            return forward_mode(ctx, *tangents)

    @torch.compiler.allow_in_graph  # type: ignore[untyped-decorator]
    def transformed(*inputs: Tensor) -> Tensor:
        return Transformed.apply(*inputs)

    def call(*operands: Tensor, **options: object) -> Tensor:
        if not are_transformed(*operands):
            return overload(*operands, **options)
        return transformed(*arguments.listed(operands, options))

    return call


def without_gradients(overload: OpOverload, refusal: str) -> Kernel:
    """Like `differentiable`, for an operator without gradients: where they are needed, it raises WeftError
    with the `refusal`.
    """

    def backward(ctx: FunctionCtx, *gradients: Tensor) -> NoReturn:
        raise WeftError(refusal)

    return differentiable(overload, lambda *_, **__: None, backward, refusal)


def refuse_gradients(overload: OpOverload, why: str, tangents: str = "") -> None:
    """Registers an error for an operator whose gradients are needed but don't exist, and another one, if any,
    where PyTorch differentiates it in forward mode.
    """

    def call(*operands: Operand, **options: Any) -> Operand:
        out = options.get("out")
        tensors = [x for x in (*operands, out) if isinstance(x, Tensor)]
        if tangents and any(map(has_tangent, tensors)):
            raise WeftError(tangents)
        if torch.is_grad_enabled() and any(x.requires_grad for x in tensors):
            raise WeftError(why)
        with torch._C._AutoDispatchBelowAutograd():
            result = overload(*operands, **options)
        if out is not None:
            torch.autograd.graph.increment_version(out)
        return result

    LIBRARY.impl(overload, call, "Autograd")


def one_by_one(
    function: Kernel, members: int, dims: Dims, operands: tuple[Tensor, ...]
) -> tuple[Tensor, int]:
    """The results of a function of each member, and the dimensions along which there are members, all 0."""
    results = [
        function(
            *(
                each.select(dim, number) if isinstance(dim, int) else each
                for each, dim in zip(operands, dims, strict=True)
            )
        )
        for number in range(members)
    ]
    if isinstance(results[0], torch.Tensor):
        return torch.stack(results), 0
    kind = type(results[0])
    return kind(map(torch.stack, zip(*results, strict=True))), kind(0 for _ in results[0])
