"""Products of f32 where the settings of PyTorch or JAX don't allow tf32: that library multiplies."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from weft.dialects.operand_roles import GROUPINGS
from weft.errors import WeftError
from weft.launch import libraries, runtime, torch_tensors
from weft.launch.launcher import OVERLAP
from weft.multiply.operands import Operands
from weft.system import upper


def has_setting(operands: Operands) -> bool:
    """Whether a setting applies to a product: of f32, unless a schedule or a chip is named."""
    product = operands.product
    named = product.schedule is not None or product.arch is not None
    return (
        operands.types.a == "f32" and not named and operands.libraries[0] in (libraries.TORCH, libraries.JAX)
    )


def is_refused(operands: Operands) -> bool:
    """Whether a setting doesn't allow tf32 for a product."""
    return has_setting(operands) and not operands.libraries[0].allows_tf32()


def while_allowed(queue: Callable[..., int]) -> Callable[..., int]:
    """A function that queues a launch of PyTorch's tensors while tf32 is allowed; otherwise the status asks
    for a new plan.
    """

    def queue_or_not(*addresses: int) -> int:
        return queue(*addresses) if torch_tensors.allows_tf32() else OVERLAP

    return queue_or_not


def multiplier(operands: Operands, given: Mapping[str, object], stream: object) -> Callable[..., Any]:
    """A function of arrays like the `given` ones, in their order, which returns their product by the library
    of a. Raises WeftError for a product that the library doesn't compute.
    """
    library, names = operands.libraries[0], tuple(given)
    wrong = {name: "None" for name in GROUPINGS if name in given}
    if library is libraries.JAX:
        wrong |= {"stream": "None"} if stream is not None else {}
        wrong |= {} if operands.created else {"out": "None"}
    else:
        others = [name for name, each in given.items() if not torch_tensors.is_tensor(each)]
        wrong |= dict.fromkeys(others, "a tensor of PyTorch, as a is,")
    for name, legal in wrong.items():
        raise WeftError(f"weft.matmul: {name} must be {legal} {library.not_as_tf32}")

    def multiply(*arrays: object) -> Any:
        named = dict(zip(names, arrays, strict=True))
        if library is libraries.JAX:
            return upper.jax().products.of_roles(named, operands.product)
        return upper.torch().decomposing.multiply(named, operands.product)

    return multiply


@contextmanager
def on(stream: object, operands: Operands) -> Iterator[None]:
    """A block of PyTorch's operations on a stream of a GPU; None is the current one."""
    if stream is None or operands.ordinal is None:
        yield
        return
    import torch

    handle = runtime.stream_handle(stream)
    with torch.cuda.stream(torch.cuda.ExternalStream(handle, device=operands.ordinal)):
        yield
