"""Random functions of linalg with products and other operations, beside what NumPy computes in f64."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

COLUMNS = 16
_MAP = "affine_map<(m, n) -> (m, n)>"
_ROWS = "affine_map<(m, n) -> (m)>"
_LINE = "affine_map<(m, n) -> (n)>"


@dataclass(frozen=True)
class Tensor:
    """A tensor of any number of rows: its name, element type and contents."""

    name: str
    element: str
    array: Any

    @property
    def kind(self) -> str:
        return f"tensor<?x{COLUMNS}x{self.element}>"


@dataclass
class Graph:
    """A function under construction. `choose` picks one of several."""

    choose: Callable[[int], int]
    rows: int
    lines: list[str] = field(default_factory=list)
    values: list[Tensor] = field(default_factory=list)
    given: list[Any] = field(default_factory=list)
    parameters: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        random = np.random.default_rng(self.rows)
        for name in "xy":
            array = random.standard_normal((self.rows, COLUMNS)).astype(np.float16)
            self.values.append(Tensor(f"%{name}", "f16", array.astype(np.float64)))
            self.given.append(array)
            self.parameters.append(f"%{name}: tensor<?x{COLUMNS}xf16>")
        self.weight = (random.standard_normal((COLUMNS, COLUMNS)) / 4).astype(np.float16)
        self.bias = random.standard_normal(COLUMNS).astype(np.float32)
        self.given += [self.weight, self.bias]
        self.parameters += [f"%w: tensor<{COLUMNS}x{COLUMNS}xf16>", f"%bias: tensor<{COLUMNS}xf32>"]
        self.lines += [
            "%zero = arith.constant 0.0 : f32",
            "%low = arith.constant 0xFF800000 : f32",
            "%none = arith.constant 0.0 : f16",
            "%0 = arith.constant 0 : index",
            "%two = arith.constant 2.0 : f32",
            "%m = tensor.dim %x, %0 : tensor<?x16xf16>",
            "%line = tensor.empty(%m) : tensor<?xf32>",
        ]

    def name(self) -> str:
        return f"%v{len(self.lines)}"

    def pick(self, element: str | None = None) -> Tensor:
        tensor = self.values[-1 - self.choose(min(3, len(self.values)))]
        return tensor if element in (None, tensor.element) else self.cast(tensor, element)

    def empty(self, element: str) -> str:
        name = self.name()
        self.lines.append(f"{name} = tensor.empty(%m) : tensor<?x{COLUMNS}x{element}>")
        return name

    def apply(
        self, inputs: Sequence[Tensor | tuple[str, str, str]], element: str, body: str, array: Any
    ) -> Tensor:
        """An elementwise operation. `body` computes `%r` from `%a`, `%b` and so on."""
        out, name = self.empty(element), self.name()
        shown = [(i.name, i.kind, _MAP) if isinstance(i, Tensor) else i for i in inputs]
        maps = ", ".join([*(each[2] for each in shown), _MAP])
        names, kinds = ", ".join(each[0] for each in shown), ", ".join(each[1] for each in shown)
        result = f"tensor<?x{COLUMNS}x{element}>"
        scalars = [each[1].rstrip(">").split("x")[-1] for each in shown]
        arguments = ", ".join(f"%{'abc'[i]}: {kind}" for i, kind in enumerate(scalars))
        self.lines.append(
            f"""{name} = linalg.generic {{indexing_maps = [{maps}],
            iterator_types = ["parallel", "parallel"]}}
            ins({names} : {kinds}) outs({out} : {result}) {{
            ^bb0({arguments}, %old: {element}):
              {body}
              linalg.yield %r : {element}
            }} -> {result}"""
        )
        return self.add(Tensor(name, element, array))

    def add(self, tensor: Tensor) -> Tensor:
        self.values.append(tensor)
        return tensor

    def cast(self, x: Tensor, element: str) -> Tensor:
        op = "extf" if element == "f32" else "truncf"
        return self.apply([x], element, f"%r = arith.{op} %a : {x.element} to {element}", x.array)

    def product(self) -> None:
        x, out = self.pick("f16"), self.empty("f32")
        filled, name = self.name(), self.name() + "p"
        kind = f"tensor<?x{COLUMNS}xf32>"
        self.lines.append(f"{filled} = linalg.fill ins(%zero : f32) outs({out} : {kind}) -> {kind}")
        self.lines.append(
            f"{name} = linalg.matmul ins({x.name}, %w : {x.kind}, tensor<{COLUMNS}x{COLUMNS}xf16>) "
            f"outs({filled} : {kind}) -> {kind}"
        )
        self.add(Tensor(name, "f32", x.array @ self.weight.astype(np.float64)))

    def unary(self) -> None:
        x = self.pick("f32")
        bodies: list[tuple[str, Callable[[Any], Any]]] = [
            ("%r = math.tanh %a : f32", np.tanh),
            (
                "%s = arith.minimumf %a, %two : f32\n %r = math.exp %s : f32",
                lambda v: np.exp(np.minimum(v, 2)),
            ),
            ("%r = arith.maximumf %a, %zero : f32", lambda v: np.maximum(v, 0)),
            ("%r = math.absf %a : f32", np.abs),
        ]
        body, function = bodies[self.choose(len(bodies))]
        self.apply([x], "f32", body, function(x.array))

    def binary(self) -> None:
        x, y = self.pick("f32"), self.pick("f32")
        bodies: list[tuple[str, Callable[[Any, Any], Any]]] = [
            ("%r = arith.addf %a, %b : f32", np.add),
            ("%r = arith.subf %a, %b : f32", np.subtract),
            ("%t = math.tanh %a : f32\n %r = arith.mulf %t, %b : f32", lambda v, w: np.tanh(v) * w),
        ]
        body, function = bodies[self.choose(len(bodies))]
        self.apply([x, y], "f32", body, function(x.array, y.array))

    def add_bias(self) -> None:
        x = self.pick("f32")
        bias = ("%bias", f"tensor<{COLUMNS}xf32>", _LINE)
        self.apply([x, bias], "f32", "%r = arith.addf %a, %b : f32", x.array + self.bias)

    def reduce(self) -> None:
        """Subtracts the mean or the maximum of each row."""
        x, filled, name = self.pick("f32"), self.name(), self.name() + "r"
        op, first, function = [("addf", "%zero", np.sum), ("maximumf", "%low", np.max)][self.choose(2)]
        self.lines.append(
            f"{filled} = linalg.fill ins({first} : f32) outs(%line : tensor<?xf32>) -> tensor<?xf32>"
        )
        self.lines.append(
            f"{name} = linalg.reduce {{ arith.{op} }} ins({x.name} : {x.kind}) "
            f"outs({filled} : tensor<?xf32>) "
            "dimensions = [1]"
        )
        row = (name, "tensor<?xf32>", _ROWS)
        body = (
            "%h = arith.constant 0.0625 : f32\n %q = arith.mulf %b, %h : f32\n %r = arith.subf %a, %q : f32"
        )
        self.apply([x, row], "f32", body, x.array - function(x.array, 1, keepdims=True) / 16)

    def rotate(self) -> None:
        x, half = self.pick(), COLUMNS // 2
        parts = []
        for first in (half, 0):
            part = self.name()
            kind = f"tensor<?x{half}x{x.element}>"
            self.lines.append(
                f"{part} = tensor.extract_slice {x.name}[0, {first}] [%m, {half}] [1, 1] : {x.kind} to {kind}"
            )
            parts.append((part, kind))
        name = self.name()
        names, kinds = (", ".join(each[i] for each in parts) for i in (0, 1))
        self.lines.append(f"{name} = tensor.concat dim(1) {names} : ({kinds}) -> {x.kind}")
        self.add(Tensor(name, x.element, np.roll(x.array, half, 1)))

    def shift(self) -> None:
        """Moves all columns to the right, and fills with zeros."""
        x, part, name = self.pick(), self.name(), self.name() + "s"
        zero = "%zero" if x.element == "f32" else "%none"
        narrow = f"tensor<?x{COLUMNS - 3}x{x.element}>"
        self.lines.append(
            f"{part} = tensor.extract_slice {x.name}[0, 0] [%m, {COLUMNS - 3}] [1, 1] : {x.kind} to {narrow}"
        )
        self.lines.append(
            f"{name} = tensor.pad {part} low[0, 3] high[0, 0] {{ ^bb0(%i: index, %j: index): "
            f"tensor.yield {zero} : {x.element} }} : {narrow} to {x.kind}"
        )
        array = np.zeros_like(x.array)
        array[:, 3:] = x.array[:, :-3]
        self.add(Tensor(name, x.element, array))

    def reshape(self) -> None:
        """Transposes the 4x4 matrix that each row is."""
        x = self.pick()
        large, out, turned, name = (f"{self.name()}{c}" for c in "abcd")
        kind = f"tensor<?x4x4x{x.element}>"
        self.lines.append(
            f"{large} = tensor.expand_shape {x.name} [[0], [1, 2]] output_shape [%m, 4, 4] "
            f": {x.kind} into {kind}"
        )
        self.lines.append(f"{out} = tensor.empty(%m) : {kind}")
        self.lines.append(
            f"{turned} = linalg.transpose ins({large} : {kind}) outs({out} : {kind}) permutation = [0, 2, 1]"
        )
        self.lines.append(f"{name} = tensor.collapse_shape {turned} [[0], [1, 2]] : {kind} into {x.kind}")
        array = x.array.reshape(-1, 4, 4).transpose(0, 2, 1).reshape(x.array.shape)
        self.add(Tensor(name, x.element, array))

    def masked(self) -> None:
        x, y = self.pick("f32"), self.pick("f32")
        mask = self.apply([x, y], "i1", "%r = arith.cmpf ogt, %a, %b : f32", x.array > y.array)
        self.values.pop()
        body = "%r = arith.select %a, %b, %c : f32"
        # Rounding may change a comparison of numbers that are nearly equal: both choices are then close.
        self.apply([mask, x, y], "f32", body, np.where(mask.array, x.array, y.array))

    def text(self) -> str:
        """The function, which returns the last two values."""
        first, second = self.values[-1], self.values[-2]
        return (
            f"func.func @graph({', '.join(self.parameters)}) -> ({first.kind}, {second.kind}) {{\n"
            + "\n".join(self.lines)
            + f"\nreturn {first.name}, {second.name} : {first.kind}, {second.kind}\n}}"
        )


STEPS = ("product", "unary", "binary", "add_bias", "reduce", "rotate", "shift", "reshape", "masked")


def graph(choose: Callable[[int], int], steps: Sequence[str], rows: int) -> Graph:
    """A function of these steps."""
    made = Graph(choose, rows)
    for step in steps:
        getattr(made, step)()
    return made
