"""Lowerings of the operators for Inductor: calls of plain objects and functions in the generated program.

Without a lowering, the program calls the operator through PyTorch's dispatcher. Inductor then doesn't
allocate the result, and reads it as if it weren't aligned.
"""

import functools
import hashlib
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import TYPE_CHECKING, Any

from weft.system import locks

if TYPE_CHECKING:
    from torch import Tensor
    from torch._inductor.codegen.wrapper import PythonWrapperCodegen
    from torch._inductor.graph import GraphLowering
    from torch._inductor.ir import ExternKernelOut, FixedLayout, IRNode, TensorBox
    from torch._ops import OpOverload

_INDUCTOR = "torch._inductor.lowering"


@dataclass(frozen=True)
class Made:
    """An object that a program creates once and calls with the `inputs` and `out`. `matrices` of them, the
    first ones, must have contiguous rows or columns.
    """

    module: str
    name: str
    inputs: Sequence[object]
    arguments: Sequence[object] = ()
    options: Mapping[str, object] = field(default_factory=dict)
    matrices: int = 0


Lowering = Callable[..., Any]
"""A function of an operator's arguments: of tensors, or of Inductor's values."""
Arguments = dict[str, Any]
"""Arguments of an operator by name: Inductor's values and constants."""
Describe = Callable[[Arguments], Made | None]
"""A function from the arguments of an operator that aren't defaults to the object of its calls; None for a
call of the operator itself."""
_lock = locks.lock()
_waiting: list[Callable[[ModuleType], None]] = []  # for Inductor's module


def add(overload: "OpOverload", describe: Describe) -> None:
    """Lowers an operator whose result is one new tensor to calls of objects."""

    def lower_by(lowering: ModuleType) -> None:
        fallback = lowering.fallback_handler(overload)
        lowered = _calls(overload, describe, fallback, lowering.constrain_to_fx_strides)
        lowering.add_needs_realized_inputs([overload])
        lowering.register_lowering(overload, type_promotion_kind=None)(lowered)

    _waiting.append(lower_by)


def add_function(overload: "OpOverload", module: str, name: str) -> None:
    """Lowers an operator to calls of a function with the same parameters and results."""

    def lower_by(lowering: ModuleType) -> None:
        lowered = _functions(lowering.fallback_handler(overload), module, name)
        lowering.register_lowering(overload, type_promotion_kind=None)(lowered)

    _waiting.append(lower_by)


def register() -> None:
    """Registers the lowerings if Inductor is imported. Operators call it when they are traced, and Inductor
    traces each program before it lowers it.
    """
    lowering = sys.modules.get(_INDUCTOR)
    if (
        _waiting
        and lowering
        and hasattr(lowering, "register_lowering")
        and hasattr(lowering, "fallback_handler")
    ):
        with _lock:
            while _waiting:
                _waiting.pop()(lowering)


def traced(fake: Lowering) -> Lowering:
    """A function of an operator's shapes that also registers the lowerings."""

    @functools.wraps(fake)
    def watched(*operands: Any, **options: object) -> Any:
        register()
        return fake(*operands, **options)

    return watched


def _calls(overload: "OpOverload", describe: Describe, fallback: Lowering, constrain: Lowering) -> Lowering:
    """The lowering of an operator to calls of objects. `constrain` gives operands the order of strides that
    they have without Inductor.
    """
    schema = overload._schema.arguments
    defaults = {each.name: each.default_value for each in schema if each.has_default_value()}

    def arguments(operands: Sequence[Any], options: Arguments) -> Arguments:
        """The arguments that aren't defaults, by name."""
        named = dict(zip((each.name for each in schema), operands, strict=False)) | options
        return {name: x for name, x in named.items() if not _is_default(x, name, defaults)}

    def lower(*operands: Any, **options: object) -> Any:
        from torch._inductor.virtualized import V

        node = V.graph.current_node
        made = describe(arguments(operands, options)) if _is_python(V.graph) else None
        if made is None or not all(map(_is_constant, (*made.arguments, *made.options.values()))):
            operands, options = constrain(node, *operands, **options)
            return fallback(*operands, **options)
        free = operands[: made.matrices]  # whose strides Inductor may choose
        others, _ = constrain(node, *(None for _ in free), *operands[len(free) :])
        made = describe(arguments((*free, *others[len(free) :]), options))
        assert made is not None
        return _call(overload, made, node.meta["val"])

    return lower


def _is_default(argument: object, name: str, defaults: Arguments) -> bool:
    default = defaults.get(name, _is_default)
    return argument is default or (_is_constant(argument) and bool(argument == default))


def _is_python(graph: "GraphLowering") -> bool:
    """Whether the program will be Python, not C++ or FX."""
    return not (graph.cpp_wrapper or getattr(graph, "fx_wrapper", False))


def _is_constant(option: object) -> bool:
    return isinstance(option, (str, bool, int, float))


def _call(overload: "OpOverload", made: Made, result: "Tensor") -> "TensorBox":
    """A node of Inductor's program that calls an object, and allocates a result like `result`."""
    from torch._inductor import ir

    inputs = [_fixed(_realized(each)) for each in made.inputs]
    for number in range(made.matrices):
        if 1 not in inputs[number].get_stride()[-2:]:
            inputs[number] = _fixed(ir.ExternKernel.copy_input(made.inputs[number]))
    sizes, strides = map(ir.convert_shape_to_inductor, (result.shape, result.stride()))
    layout = ir.FixedLayout(result.device, result.dtype, sizes, strides)
    return ir.TensorBox.create(_node()(layout, inputs, overload, made))


def _realized(x: "IRNode") -> "IRNode":
    """An input in memory. What a view shows is stored in its own order: before PyTorch 2.13, Inductor stores
    it in that of the view, once for each view.
    """
    from torch._inductor import ir

    view = x.data if isinstance(x, ir.TensorBox) else x
    if isinstance(view, ir.BaseView):
        view.unwrap_view().realize()
    return ir.ExternKernel.realize_input(x)


def _fixed(x: "IRNode") -> "IRNode":
    """A realized input, whose layout Inductor doesn't change any more."""
    from torch._inductor import ir

    if ir.is_storage_and_layout(x):
        ir.as_storage_and_layout(x, freeze=True)
    return x


@functools.cache
def _node() -> "type[ExternKernelOut]":
    """The class of the nodes of `_call`, derived from Inductor's when that is imported."""
    from torch._inductor import ir

    class Call(ir.ExternKernelOut):  # type: ignore[misc]
        """A call of an object, which the program creates once."""

        def __init__(
            self, layout: "FixedLayout", inputs: "list[IRNode]", overload: "OpOverload", made: Made
        ) -> None:
            arguments = [repr(each) for each in made.arguments]
            arguments += [f"{name}={value!r}" for name, value in sorted(made.options.items())]
            alias = f"Weft{made.name}"
            text = f"{alias}({', '.join(arguments)})"
            name = f"weft_{made.name.lower()}_{hashlib.sha256(text.encode()).hexdigest()[:8]}"
            self.weft_lines = (f"from {made.module} import {made.name} as {alias}", f"{name} = {text}")
            super().__init__(layout, inputs, python_kernel_name=name, op_overload=overload)

        def codegen(self, wrapper: "PythonWrapperCodegen") -> None:
            _write(wrapper, *self.weft_lines)
            super().codegen(wrapper)

    return Call


def _functions(fallback: Lowering, module: str, name: str) -> Lowering:
    """The lowering of an operator to calls of a function."""

    def lower(*operands: Any, **options: object) -> Any:
        from torch._inductor.virtualized import V

        results = fallback(*operands, **options)
        if not _is_python(V.graph):
            return results
        kernel = results[0].data.data.inputs[0]  # of which each result is a part
        own = kernel.codegen

        def codegen(wrapper: "PythonWrapperCodegen") -> None:
            _write(wrapper, f"from {module} import {name} as weft_{name}")
            own(wrapper)

        kernel.codegen, kernel.python_kernel_name = codegen, f"weft_{name}"
        return results

    return lower


def _write(wrapper: "PythonWrapperCodegen", *lines: str) -> None:
    """Writes lines at the beginning of a program, once."""
    while getattr(wrapper, "parent_wrapper", None) is not None:  # of a branch, or a part for a CUDA graph
        wrapper = wrapper.parent_wrapper
    for line in lines:
        wrapper.add_import_once(line)
