"""Epilogues by pattern: what follows a product in a graph of Inductor becomes a part of the product.

Activations are recognized as formulas, since PyTorch decomposes them in ways that change.
"""

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import sqrt
from pathlib import Path

import torch
from torch._inductor.custom_graph_pass import CustomGraphPass, get_hash_for_files
from torch._ops import OpOverload
from torch.fx import Graph, Node
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.utils._python_dispatch import _disable_current_modes

from weft.inductor.choices import is_exact
from weft.passes.kernels.activations import name_of
from weft.passes.raising.formulas import (
    Comparison,
    Formula,
    NoFormulaError,
    X,
    called,
    larger,
    number,
    sigmoid,
)
from weft.torch import operators  # noqa: F401  defines the operators

DEVICES = ("cuda",)
"""Where `mm` and `addmm` become products of Weft. Elsewhere, the emulator would compute them."""
_aten, _weft = torch.ops.aten, torch.ops.weft
_FLOATS = (torch.float32, torch.float16, torch.bfloat16)
_CAST = torch.ops.prims.convert_element_type.default
_VIEWS = (_aten.view.default, _aten.reshape.default, _aten._unsafe_view.default)
_POINTWISE: dict[OpOverload, Callable[..., Formula | Comparison]] = {
    _aten.neg.default: Formula.__neg__,
    _aten.exp.default: partial(called, "exp"),
    _aten.erf.default: partial(called, "erf"),
    _aten.tanh.default: partial(called, "tanh"),
    _aten.sigmoid.default: sigmoid,
    _aten.reciprocal.default: lambda x: number(1.0) / x,
    _aten.square.default: lambda x: x * x,
    _aten.relu.default: lambda x: larger(x, number(0.0)),
    _aten.clamp_min.default: larger,
    _aten.silu.default: lambda x: x * sigmoid(x),
    _aten.gelu.default: lambda x: x * number(0.5) * (number(1.0) + called("erf", x * number(sqrt(0.5)))),
    _aten.pow.Tensor_Scalar: Formula.__pow__,
    _aten.where.self: Comparison.select,
    **{
        getattr(getattr(_aten, name), overload): function
        for overload in ("Tensor", "Scalar")
        for name, function in {
            "mul": Formula.__mul__,
            "add": Formula.__add__,
            "sub": Formula.__sub__,
            "div": Formula.__truediv__,
        }.items()
    },
    **{
        getattr(_aten, name).Scalar: partial(Comparison, name, of_nan=False)
        for name in ("gt", "ge", "lt", "le")
    },
}
_MOST_NODES = 24  # of an activation; gelu_tanh has 11
_ALIGNED = 8  # elements: kernels read rows of 16 bytes without copies


class Fusions(CustomGraphPass):  # type: ignore[misc]
    """The pass, after another one that was there before. `count` is the number of products so far that have
    become larger.
    """

    def __init__(self, before: CustomGraphPass | None = None) -> None:
        self.before, self.count = before, 0

    def __call__(self, graph: Graph) -> None:
        if self.before is not None:
            self.before(graph)
        with _disable_current_modes():
            for node in list(graph.nodes):
                product = _Fusion.of(node)
                larger = None if product is None else product.grown()
                if larger is not None:
                    larger.put()
                    self.count += 1

    def uuid(self) -> bytes | None:
        """The pass's part in the keys of Inductor's cache; None if the other pass has none."""
        before = None if self.before is None else self.before.uuid()
        if self.before is not None and before is None:
            return None
        files = [str(path) for path in sorted(Path(__file__).parent.glob("*.py"))]
        return get_hash_for_files(tuple(files), repr(before))


@dataclass
class _Fusion:
    """A product of a graph, and what it computes: all from `first` to `last`, whose value it replaces. `view`
    is the last change of the shape between.
    """

    first: Node
    last: Node
    operands: dict[str, Node]
    options: dict[str, object] = field(default_factory=dict)
    target: OpOverload = _weft.matmul.default
    view: Node | None = None

    @classmethod
    def of(cls, node: Node) -> "_Fusion | None":
        """The product of a node; None for other nodes, and for products that are left to others."""
        if node.op != "call_function" or getattr(node.meta.get("val"), "dtype", None) not in _FLOATS:
            return None
        if node.target in (_weft.matmul.default, _weft.scaled_matmul.default):
            schema = node.target._schema.arguments
            arguments = dict(zip((each.name for each in schema), node.args, strict=False)) | dict(node.kwargs)
            operands = {x.name: arguments.pop(x.name, None) for x in schema if not x.kwarg_only}
            operands = {name: x for name, x in operands.items() if x is not None}
            return cls(node, node, operands, arguments, node.target)
        if node.target not in (_aten.mm.default, _aten.addmm.default) or not _is_taken(node):
            return None
        if node.target == _aten.mm.default:
            return cls(node, node, dict(zip("ab", node.args, strict=True)))
        added, a, b = node.args
        alpha, beta = float(node.kwargs.get("alpha", 1)), float(node.kwargs.get("beta", 1))
        if added.meta["val"].dim() == 1 and beta == 1:
            return cls(node, node, {"a": a, "b": b, "bias": added}, {"alpha": alpha})
        if _same(added.meta["val"].shape, node.meta["val"].shape):
            return cls(node, node, {"a": a, "b": b, "c": added}, {"alpha": alpha, "beta": beta})
        return None

    def grown(self) -> "_Fusion | None":
        """The largest product that replaces this one and some of what follows; None if there is none."""
        states = [self]
        while (larger := states[-1]._larger()) is not None:
            states.append(larger)
        return next((each for each in reversed(states) if each._is_gain(self)), None)

    def _larger(self) -> "_Fusion | None":
        """The product with one more node, or with an activation."""
        return self._viewed() or self._cast() or self._biased() or self._activated() or self._summed()

    def _is_gain(self, before: "_Fusion") -> bool:
        """Whether a kernel that computes all this saves a pass over the result."""
        if self.last is self.first or self.last.target in _VIEWS:
            return False
        gained = set(self.operands) - set(before.operands)
        if self.options.get("activation") != before.options.get("activation"):
            gained.add("activation")
        plain = self.first.target in (_aten.mm.default, _aten.addmm.default)
        own, dtype = (each.meta["val"].dtype for each in (self.first, self.last))
        if dtype.itemsize > own.itemsize:
            # What follows would read more bytes, unless the wider values are results of the program.
            return all(user.op == "output" for user in self.last.users)
        return bool(gained - {"bias"} if plain else gained) or dtype != own

    @property
    def _is_sum(self) -> bool:
        """Whether nothing was computed from the sum yet."""
        return self.options.get("activation") is None and "residual" not in self.operands

    def _with(self, last: Node, operands: dict[str, Node] | None = None, **options: object) -> "_Fusion":
        view = last if last.target in _VIEWS else self.view
        operands, options = self.operands | (operands or {}), self.options | options
        return replace(self, last=last, operands=operands, options=options, view=view)

    def _next(self, *targets: OpOverload) -> Node | None:
        """The only node that reads the last value, if it is of one of these; otherwise None."""
        users = list(self.last.users)
        if len(users) != 1 or users[0].target not in targets:
            return None
        return users[0] if getattr(users[0].meta.get("val"), "dtype", None) in _FLOATS else None

    def _viewed(self) -> "_Fusion | None":
        view = self._next(*_VIEWS)
        if view is None or view.args[0] is not self.last:
            return None
        columns = view.meta["val"].shape[-1:], self.last.meta["val"].shape[-1:]
        return self._with(view) if _same(*columns) else None

    def _cast(self) -> "_Fusion | None":
        cast = self._next(_CAST)
        return None if cast is None else self._with(cast)

    def _biased(self) -> "_Fusion | None":
        node, other = self._sum()
        if other is None or "bias" in self.operands or not self._is_sum:
            return None
        columns = self.last.meta["val"].shape[-1:]
        return self._with(node, {"bias": other}) if _same(other.meta["val"].shape, columns) else None

    def _summed(self) -> "_Fusion | None":
        node, other = self._sum()
        if other is None or "residual" in self.operands:
            return None
        if not _same(other.meta["val"].shape, self.last.meta["val"].shape):
            return None
        matrix = self.first.meta["val"]
        if self.view is not None and (matrix.dim() != 2 or not isinstance(matrix.shape[1], int)):
            return None
        return self._with(node, {"residual": other})

    def _sum(self) -> tuple[Node | None, Node | None]:
        """The sum of the last value with another one of the graph, and the other one; or None."""
        node = self._next(_aten.add.Tensor)
        if node is None or node.kwargs.get("alpha", 1) != 1:
            return None, None
        left, right = node.args
        other = right if left is self.last else left
        if not isinstance(other, Node) or other is self.last:
            return None, None
        of_other = other.meta.get("val")
        if getattr(of_other, "dtype", None) not in _FLOATS or of_other.device != node.meta["val"].device:
            return None, None
        return node, other

    def _activated(self) -> "_Fusion | None":
        if self._is_sum:
            for node, value in _functions(self.last):
                name = name_of(value) if isinstance(value, Formula) else None
                if node.meta["val"].dtype in _FLOATS and name is not None:
                    return self._with(node, activation=name)
        return None

    def put(self) -> None:
        """Puts one product in the place of all nodes up to the last."""
        graph, last, columns = self.first.graph, self.last, self.first.meta["val"].shape[-1]
        operands = dict(self.operands)
        with graph.inserting_before(last):
            if self.view is not None and "residual" in operands:
                operands["residual"] = _new(graph, _aten.reshape.default, operands["residual"], [-1, columns])
            names = [each.name for each in self.target._schema.arguments if not each.kwarg_only]
            arguments = [operands.get(name) for name in names]
            options = self.options | {"out_dtype": last.meta["val"].dtype}
            result = product = _new(graph, self.target, *arguments, **options)
            if self.view is not None:
                result = _new(graph, _aten.reshape.default, product, self.view.args[1])
        for name in ("stack_trace", "nn_module_stack"):
            if name in last.meta:
                product.meta[name] = last.meta[name]
        last.replace_all_uses_with(result)
        unused = [last]
        while unused:
            node = unused.pop()
            if not node.users and node.op == "call_function" and not node._erased:
                unused += node.all_input_nodes
                graph.erase_node(node)


def _is_taken(node: Node) -> bool:
    """Whether Weft multiplies the matrices of an `mm` or `addmm`, without copies and as exactly."""
    result = node.meta["val"]
    a, b = (each.meta["val"] for each in node.args[-2:])
    sizes = (*a.shape, *b.shape)
    return (
        result.device.type in DEVICES
        and a.dtype == b.dtype == result.dtype
        and is_exact(a.dtype)
        and all(statically_known_true(size > 0) for size in sizes)
        and all(statically_known_true(size % _ALIGNED == 0) for size in sizes[1:])
    )


def _same(left: Sequence[int], right: Sequence[int]) -> bool:
    """Whether two shapes are the same, whatever their symbols are."""
    if len(left) != len(right):
        return False
    return all(statically_known_true(x == y) for x, y in zip(left, right, strict=True))


def _new(graph: Graph, target: OpOverload, *arguments: object, **options: object) -> Node:
    """A new node of a graph, with its value."""
    node = graph.call_function(target, arguments, options)
    values, named = torch.fx.map_arg((node.args, node.kwargs), lambda each: each.meta["val"])
    mode = next(each.fake_mode for each in values if hasattr(each, "fake_mode"))
    with mode:
        node.meta["val"] = target(*values, **named)
    return node


def _functions(start: Node) -> Iterator[tuple[Node, Formula | Comparison]]:
    """Nodes that replace a node for all that read it, as functions of its value alone: each with its formula,
    in the order of the graph.
    """
    position = {node: number for number, node in enumerate(start.graph.nodes)}
    values: dict[Node, Formula | Comparison] = {start: X}
    waiting = [(position[user], user) for user in start.users]
    heapq.heapify(waiting)
    while waiting and len(values) <= _MOST_NODES:
        _, node = heapq.heappop(waiting)
        if node in values:
            continue
        value = _value(node, values)
        if value is None:
            return
        values[node] = value
        for user in node.users:
            heapq.heappush(waiting, (position[user], user))
        inside = [each for each in values if each is not node]
        if all(user in values for each in inside for user in each.users):
            yield node, value


def _value(node: Node, values: Mapping[Node, Formula | Comparison]) -> Formula | Comparison | None:
    """The formula of a node, without roundings; None for what has none."""
    if node.kwargs:
        return None
    cast = node.target == _CAST and node.args[1] in _FLOATS
    arguments = node.args[:1] if cast or node.target in _VIEWS else node.args
    try:
        read = [_argument(each, values) for each in arguments]
        conditions = [isinstance(each, Comparison) for each in read]
        if conditions != [node.target == _aten.where.self and each is read[0] for each in read]:
            return None
        return read[0] if len(read) < len(node.args) else _POINTWISE[node.target](*read)
    except (NoFormulaError, KeyError):
        return None


def _argument(argument: object, values: Mapping[Node, Formula | Comparison]) -> Formula | Comparison:
    """The formula of an argument of a node, which may be a number. Raises NoFormulaError for others."""
    if isinstance(argument, torch.fx.Node) and argument in values:
        return values[argument]
    if isinstance(argument, torch.fx.Node) and argument.target == _aten.full.default and not argument.args[0]:
        argument = argument.args[1]
    if not isinstance(argument, int | float):
        raise NoFormulaError("is no number")
    return number(float(argument), "f32")
