"""Operators under `torch.func` and in forward mode, which ignore the gradients that operators register."""

from collections.abc import Callable
from typing import Any

import torch
from torch.autograd import forward_ad

from weft.errors import WeftError
from weft.launch import torch_tensors

Save = Callable[[Any, tuple[Any, ...], dict[str, Any], Any], None]
"""A function `(ctx, inputs, keyword_only_inputs, output)`, as PyTorch names its parameters."""


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def is_transformed() -> bool:
    """Whether `torch.func` or `torch.vmap` transforms calls."""
    transform = torch._C._functorch.peek_interpreter_stack()
    return transform is not None and transform.key() != torch._C._functorch.TransformType.Functionalize


def has_tangent(tensor: Any) -> bool:
    """Whether PyTorch's forward mode differentiates operations on a tensor. `torch.compile` may trace this:
    it would iterate over `sys.modules`, to which other threads add.
    """
    return torch_tensors.is_dual(tensor, forward_ad)


def are_transformed(*operands: Any) -> bool:
    """Whether calls are transformed, or an operand is a tensor with a tangent."""
    return is_transformed() or any(isinstance(each, torch.Tensor) and has_tangent(each) for each in operands)


class Arguments:
    """The arguments of an operator as one list, which a `torch.autograd.Function` takes."""

    def __init__(self, overload: Any) -> None:
        schema = overload._schema.arguments
        self.operands = tuple(each.name for each in schema if not each.kwarg_only)
        self.defaults = {each.name: each.default_value for each in schema if each.kwarg_only}

    def listed(self, operands: tuple[Any, ...], options: dict[str, Any]) -> list[Any]:
        """All arguments. Operands that are missing are None."""
        missing = [None] * (len(self.operands) - len(operands))
        return [*operands, *missing, *(self.defaults | options).values()]

    def apart(self, inputs: tuple[Any, ...]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The operands and the options of a list."""
        count = len(self.operands)
        return inputs[:count], dict(zip(self.defaults, inputs[count:], strict=True))


def differentiable(
    library: Any,
    overload: Any,
    save: Save,
    backward: Callable[..., tuple[Any, ...]],
    refusal: str | None = None,
    forward_mode: Callable[..., Any] | None = None,
) -> Callable[..., Any]:
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

    def save_operands(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        save(ctx, inputs, {}, output)

    context = save if arguments.defaults else save_operands  # PyTorch passes no empty dictionary
    torch.library.register_autograd(name, backward, setup_context=context, lib=library)

    class Transformed(torch.autograd.Function):  # type: ignore[misc]
        generate_vmap_rule = forward_mode is not None

        @staticmethod
        def forward(*inputs: Any) -> Any:
            operands, options = arguments.apart(inputs)
            result = overload(*operands, **options)
            return tuple(result) if isinstance(result, list) else result

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
            operands, options = arguments.apart(inputs)
            save(ctx, operands, options, output)
            if forward_mode is not None:
                # The same for both, since torch.vmap keeps one list of their mapped dimensions.
                ctx.save_for_backward(output, *operands)
                ctx.save_for_forward(output, *operands)

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> tuple[Any, ...]:
            return *backward(ctx, *gradients), *(None for _ in arguments.defaults)

        if forward_mode is None:

            @staticmethod
            def vmap(info: Any, in_dims: tuple[Any, ...], *inputs: Any) -> tuple[Any, Any]:
                return one_by_one(Transformed.apply, info.batch_size, in_dims, inputs)

        @staticmethod
        def jvp(ctx: Any, *tangents: Any) -> Any:
            if forward_mode is None:
                raise WeftError(why)
            return forward_mode(ctx, *tangents)

    @torch.compiler.allow_in_graph  # type: ignore[untyped-decorator]
    def transformed(*inputs: Any) -> Any:
        return Transformed.apply(*inputs)

    def call(*operands: Any, **options: Any) -> Any:
        if not are_transformed(*operands):
            return overload(*operands, **options)
        return transformed(*arguments.listed(operands, options))

    return call


def without_gradients(library: Any, overload: Any, refusal: str) -> Callable[..., Any]:
    """Like `differentiable`, for an operator without gradients: where they are needed, it raises WeftError
    with the `refusal`.
    """

    def backward(ctx: Any, *gradients: Any) -> Any:
        raise WeftError(refusal)

    def save(ctx: Any, inputs: Any, keyword_only_inputs: Any, output: Any) -> None:
        """Keeps nothing."""

    return differentiable(library, overload, save, backward, refusal)


def one_by_one(
    function: Callable[..., Any], members: int, dims: tuple[Any, ...], operands: tuple[Any, ...]
) -> tuple[Any, Any]:
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
