"""The plans of `weft.matmul`: launches, and products that PyTorch or JAX computes. `planned` makes the plan
of arrays that are met for the first time.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from weft.dialects.operand_roles import GROUPINGS
from weft.launch import cuda_driver, libraries, runtime, torch_tensors
from weft.launch.arrays import Array
from weft.launch.launcher import OVERLAP
from weft.launch.plans import Plans
from weft.multiply import launches
from weft.multiply.array_views import refuse
from weft.multiply.launches import Launch
from weft.multiply.operands import Operands
from weft.multiply.product import Product
from weft.system import upper

kept = Plans()
"""The plans of all products so far."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A launch for all arrays with one key.

    `queue(stream, *addresses)` returns a status of `weft.launch.launcher`. `stream` returns the handle for a
    call's stream, or None if the arrays must be checked again; `current` that of the current stream, without
    checks. `new` creates an array for the result, or a tuple of these where there are `several`, and
    `address` returns the address of one. `write` is called before an array of the caller is written.
    """

    queue: Callable[..., int]
    launch: Launch
    stream: Callable[[object], int | None]
    current: Callable[[], int]
    new: Callable[[], Array | tuple[Array, ...]]
    address: Callable[[Array], int]
    write: Callable[[Array], None] | None = None
    several: bool = False

    @classmethod
    def of(cls, launch: Launch, operands: Operands) -> "Plan":
        """A plan of a launch for arrays like these operands."""
        library, ordinal = operands.libraries[0], operands.ordinal
        queue = launch.queue_apart
        if library is libraries.TORCH and _follows_setting(operands):
            queue = _while_tf32_is_allowed(queue)
        kinds = [operands.views[number].dtype for number in operands.results]
        makers = [library.maker(operands.arrays[0], ordinal, operands.shape, kind) for kind in kinds]
        return cls(
            queue,
            launch,
            libraries.stream_finder(operands.arrays, ordinal, operands.views),
            library.current_stream(ordinal),
            makers[0][0] if len(makers) == 1 else lambda: tuple(make() for make, _ in makers),
            makers[0][1],
            operands.libraries[2].writer(),
            len(makers) > 1,
        )


@dataclass(frozen=True, slots=True)
class Handed:
    """A product that another library computes: a function of a, b and the other arrays that are read. The
    plan is kept, but isn't used while `holds()` is false.
    """

    compute: Callable[..., Any]
    holds: Callable[[], bool] = lambda: True

    def stream(self, stream: object) -> None:
        """None, since Weft doesn't queue it."""


def planned(
    key: object,
    a: object,
    b: object,
    out: object,
    added: Mapping[str, object],
    product: Product,
    stream: object,
) -> Any:
    """Multiplies arrays that have no plan yet. Keeps a plan of GPU arrays by `key`, if that isn't None."""
    operands = Operands.of(a, b, out, added, product)
    runtime.stream_handle(stream)  # raises WeftError for what isn't a stream
    if not _follows_setting(operands) or operands.libraries[0].allows_tf32():
        return _by_weft(key, operands, stream)
    return _by_library(key, operands, {"a": a, "b": b, **added}, stream)


def _by_weft(key: object, operands: Operands, stream: object) -> Any:
    """The product by a kernel. Keeps the plan of a launch on a GPU."""
    for number in [] if operands.created else operands.results:
        if (write := operands.libraries[number].writer()) is not None:
            write(operands.arrays[number])
    if operands.ordinal is None:
        launches.run(operands)
    else:
        _launch(key, operands, stream)
    return operands.result


def _launch(key: object, operands: Operands, stream: object) -> None:
    """Queues the first launch of operands on a GPU, and keeps its plan."""
    launch = launches.plan(operands)
    # JAX's arrays must be asked for their views in each call.
    waits = libraries.JAX in operands.libraries
    if key is not None and not waits:
        kept.add(key, Plan.of(launch, operands))
    current = operands.libraries[0].current_stream(operands.ordinal)
    handle = current() if stream is None else runtime.stream_handle(stream)
    waited = {view.stream for view in operands.views if view.stream is not None}
    cuda_driver.order_streams(operands.ordinal, handle, waited)
    launch.launch(handle, *(view.address for view in operands.views))
    if waits:  # JAX may use an array's memory again once the array is dropped
        with runtime.on(operands.ordinal):
            runtime.synchronize()


def _follows_setting(operands: Operands) -> bool:
    """Whether a setting of PyTorch or JAX applies to a product: of f32, unless a schedule or a chip is named.
    Where it doesn't allow tf32, that library multiplies.
    """
    product = operands.product
    named = product.schedule is not None or product.arch is not None
    return (
        operands.types.a == "f32" and not named and operands.libraries[0] in (libraries.TORCH, libraries.JAX)
    )


def _while_tf32_is_allowed(queue: Callable[..., int]) -> Callable[..., int]:
    """A function that queues a launch while tf32 is allowed; otherwise the status asks for a new plan."""

    def queue_or_not(*addresses: int) -> int:
        return queue(*addresses) if torch_tensors.allows_tf32() else OVERLAP

    return queue_or_not


def _by_library(key: object, operands: Operands, given: Mapping[str, object], stream: object) -> Any:
    """The product by the library of a. Keeps a plan if the call creates the result."""
    out, created = operands.arrays[2], operands.created
    if operands.product.beta and "c" not in given:
        given = {**given, "c": out}
    compute = _of_library(operands, given, stream)
    if key is not None and created and operands.ordinal is not None:
        find = libraries.stream_finder(operands.arrays, operands.ordinal)
        kept.add(key, Handed(compute, lambda: find(0) is not None and not torch_tensors.allows_tf32()))
    with libraries.queued_on(stream, operands.arrays[0]):
        result = compute(*given.values())
        return result if created else out.copy_(result)


def _of_library(operands: Operands, given: Mapping[str, object], stream: object) -> Callable[..., Any]:
    """A function of arrays like the `given` ones, in their order, which returns their product by the library
    of a. Raises WeftError for a product that the library doesn't compute.
    """
    library, names, product = operands.libraries[0], tuple(given), operands.product
    wrong = {name: "None" for name in GROUPINGS if name in given}
    wrong |= {} if product.function is None else {"epilogue": "a weft.Epilogue"}
    wrong |= {"batch_invariant": "False"} if product.batch_invariant else {}
    if library is libraries.JAX:
        wrong |= {"stream": "None"} if stream is not None else {}
        wrong |= {} if operands.created else {"out": "None"}
    else:
        others = [name for name, each in given.items() if not torch_tensors.is_tensor(each)]
        wrong |= dict.fromkeys(others, "a tensor of PyTorch, as a is,")
    for name, legal in wrong.items():
        raise refuse(f"{name} must be {legal} {library.not_as_tf32}")
    by_roles = (
        upper.jax().products.of_roles if library is libraries.JAX else upper.torch().decomposing.multiply
    )
    return lambda *arrays: by_roles(dict(zip(names, arrays, strict=True)), product)
