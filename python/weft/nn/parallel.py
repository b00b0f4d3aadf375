"""Linear layers whose weights are divided among the GPUs of a team (Shoeybi et al., 2019, "Megatron-LM").

Between a `ColumnParallelLinear` and a `RowParallelLinear`, each rank has some features of all tokens; outside
of them, all features of some tokens (Korthikanti et al., 2022, "Reducing Activation Recomputation in Large
Transformer Models"). So the first gathers tokens and the second adds up and scatters, both in the product.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor

from weft.errors import WeftError, not_a_multiple, shown
from weft.multiply.product import checked_activation
from weft.multiply.quantize import quantize
from weft.nn.arguments import check_input, check_layer, check_tensor
from weft.nn.linear import Linear
from weft.torch.operators import epilogue_of
from weft.torch.signatures import Device, Operand

if TYPE_CHECKING:
    from weft.distributed import Team

_UNIT = 8  # features, whose elements of 2 bytes are 16 bytes
_FP8_UNIT = 16


class _Parallel(torch.nn.Module):  # type: ignore[misc]
    """The base class of both layers. `_kind` names the divided features, the `_dimension` of the weight."""

    _kind: str
    _dimension: int
    weight_scale: Operand
    """The scales of a weight of fp8; None for another one."""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Device = None,
        dtype: torch.dtype | None = None,
        *,
        team: "Team",
        activation: str | None = None,
    ) -> None:
        super().__init__()
        name, sizes = self._caller(), {"in_features": in_features, "out_features": out_features}
        check_layer(name, sizes, device, dtype)
        _check_team(name, team)
        self._check_features(name, sizes, team)
        self.in_features, self.out_features, self.team = in_features, out_features, team
        self.activation = checked_activation(activation, name)
        self._features: tuple[int, ...] = (out_features,)
        rows, columns = out_features, in_features
        rows, columns = (rows // team.size, columns) if self._dimension == 0 else (rows, columns // team.size)
        self.weight = torch.nn.Parameter(torch.empty(rows, columns, device=device, dtype=dtype))
        self.register_parameter("bias", None)
        if bias:
            self.bias = torch.nn.Parameter(torch.empty(rows, device=device, dtype=dtype))
        self.register_buffer("weight_scale", None)
        self.reset_parameters()

    @classmethod
    def _caller(cls) -> str:
        return f"weft.nn.{cls.__name__}"

    @classmethod
    def _check_features(cls, caller: str, sizes: dict[str, int], team: "Team") -> None:
        for name, size in sizes.items():
            ranks = team.size if name == cls._kind else 1
            unit = _UNIT * ranks
            if size % unit or not size:
                near = max(-(-size // unit) * unit, unit)
                of = "" if ranks == 1 else f", {_UNIT} for each of {ranks} ranks"
                raise WeftError(
                    f"{caller}: {name} must be a multiple of {unit}{of}, got {size}; the next is {near}"
                )

    def reset_parameters(self) -> None:
        """Draws numbers as `torch.nn.Linear` does, of which each rank keeps its part. An undivided bias
        is 0 on all ranks.
        """
        bound = self.in_features**-0.5 if self.in_features else 0.0
        with torch.no_grad():
            for parameter in self.parameters():
                whole = [*parameter.shape]
                if self._dimension == 0 or parameter is self.weight:
                    whole[self._dimension] *= self.team.size
                    drawn = parameter.new_empty(whole).uniform_(-bound, bound)
                    parameter.copy_(_part(drawn, self._dimension, self.team))
                else:
                    parameter.zero_()

    @classmethod
    def _of(cls, layers: Sequence[torch.nn.Linear], team: "Team") -> Self:
        """A layer with this rank's parts of several layers, one below the other."""
        name = f"{cls._caller()}.of"
        _check_team(name, team)
        for layer in layers:
            if type(layer) not in (torch.nn.Linear, Linear):
                raise WeftError(
                    f"{name}: layers must be torch.nn.Linear or weft.nn.Linear, got {shown(layer)}"
                )
            if getattr(layer, "fp8", None) is not None:
                raise WeftError(
                    f"{name}: layers must have fp8=None, got {shown(layer.fp8)}: set layer.fp8 = None"
                )
            sizes = {"in_features": layer.in_features, "out_features": layer.out_features}
            cls._check_features(name, sizes, team)
        kinds = {
            (each.in_features, each.bias is not None, getattr(each, "activation", None), each.weight.dtype)
            for each in layers
        }
        if len(kinds) > 1:
            raise WeftError(
                f"{name}: layers must have one in_features, activation and type, and all or none a bias, got "
                f"{' and '.join(map(str, layers))}"
            )
        first, features = layers[0], tuple(each.out_features for each in layers)
        ((columns, has_bias, activation, dtype),) = kinds
        layer = cls(columns, sum(features), has_bias, "meta", dtype, team=team, activation=activation)
        layer._features = features
        with torch.no_grad():
            parts = [_part(each.weight, cls._dimension, team) for each in layers]
            layer.weight = torch.nn.Parameter(torch.cat(parts).contiguous(), first.weight.requires_grad)
            if has_bias:
                biases = [each.bias if cls._dimension else _part(each.bias, 0, team) for each in layers]
                layer.bias = torch.nn.Parameter(torch.cat(biases), first.bias.requires_grad)
        return layer.train(first.training)

    def to_fp8(self) -> Self:
        """Casts the weight to e4m3 with a scale for each 128 x 128 elements, for inference: there are no
        gradients then, and inputs must be bf16. They are cast in each call, with a scale for each 128
        elements of a row, so that half the bytes travel between GPUs. Returns the layer. Raises WeftError for
        a weight whose rows aren't multiples of 16 elements.
        """
        name, columns = f"{self._caller()}.to_fp8", self.weight.shape[1]
        if columns % _FP8_UNIT:
            raise not_a_multiple(f"{name}: each rank's in_features", columns, _FP8_UNIT)
        if self.weight_scale is None:
            cast = quantize(self.weight.detach(), scales="block")
            self.weight = torch.nn.Parameter(cast.values, requires_grad=False)
            self.weight_scale = cast.scales
            if self.bias is not None:
                self.bias.requires_grad_(False)
        return self

    def _operands(self, x: Tensor) -> tuple[Tensor, Tensor, tuple[Tensor, Tensor] | None]:
        """The rows of an input, the weight, and the scales of both or None."""
        weight = self.weight
        if self.weight_scale is None:
            return self._rows(x, weight), weight, None
        name = self._caller()
        if torch.is_grad_enabled() and getattr(x, "requires_grad", False):
            raise WeftError(f"{name}: a layer of fp8 has no gradients: call it under torch.no_grad()")
        if getattr(x, "dtype", torch.bfloat16) != torch.bfloat16:
            raise WeftError(f"{name}: x must be of torch.bfloat16 for a layer of fp8, got {x.dtype}")
        cast = quantize(self._rows(x, weight, is_cast=True), scales="group")
        return cast.values, weight, (cast.scales, self.weight_scale)

    def to_linear(self) -> Linear | list[Linear]:
        """The whole layer as a `weft.nn.Linear` with copies of the weights of all ranks, or a list of those
        from which `of` has made it. All ranks call it together.
        """
        from weft.distributed.rows import all_gather_rows

        if self.weight_scale is not None:
            raise WeftError(f"{self._caller()}.to_linear: the layer must not be one of fp8")

        def whole(parameter: Operand, dimension: int) -> list[Tensor]:
            """The parts of each layer of a parameter that is divided along a dimension."""
            rows = parameter.detach().movedim(dimension, 0)
            matrix = rows.reshape(rows.shape[0], -1).contiguous()
            gathered: Tensor = all_gather_rows(matrix, team=self.team).reshape(self.team.size, *rows.shape)
            sizes = [each // self.team.size for each in self._features] if dimension == 0 else [rows.shape[0]]
            return [each.flatten(0, 1).movedim(0, dimension) for each in gathered.split(sizes, 1)]

        with torch.no_grad():
            weights = whole(self.weight, self._dimension)
            biases: list[Operand] = [None] * len(weights)
            if self.bias is not None:
                biases = [self.bias] if self._dimension else whole(self.bias, 0)
            layers = []
            for weight, bias in zip(weights, biases, strict=True):
                sizes = self.in_features, weight.shape[0]
                layer = Linear(*sizes, bias is not None, "meta", weight.dtype, activation=self.activation)
                layer.weight = torch.nn.Parameter(weight.contiguous())
                layer.bias = None if bias is None else torch.nn.Parameter(bias.clone())
                layers.append(layer.train(self.training))
        return layers[0] if len(layers) == 1 else layers

    def _rows(self, x: Tensor, weight: Tensor, *, is_cast: bool = False) -> Tensor:
        """The rows of an input, as a matrix. Raises WeftError for what isn't one of this layer."""
        name = self._caller()
        check_tensor(name, "x", x)
        differ = x.dtype != weight.dtype and not is_cast
        check_input(name, x, weight, is_cast or (differ and torch.is_autocast_enabled(x.device.type)))
        if x.dim() < 2:
            raise WeftError(f"{name}: x must have rows, got a shape of {tuple(x.shape)}")
        return (x if x.dim() == 2 else x.reshape(-1, x.shape[-1])).contiguous()

    def extra_repr(self) -> str:
        """The sizes of the whole layer, and the ranks."""
        text = f"in_features={self.in_features}, out_features={self.out_features}, "
        text += f"bias={self.bias is not None}, ranks={self.team.size}"
        text += ", fp8" * (self.weight_scale is not None)
        return text if self.activation is None else f"{text}, activation={self.activation}"


class ColumnParallelLinear(_Parallel):
    """`activation(x @ weight.mT + bias)` for the tokens of all ranks and this rank's output features.

    `x` is this rank's part of the tokens, ... x in_features. The ranks of `team`, a `weft.distributed.Team`,
    divide the first dimension. The result has the tokens of all ranks, and out_features / ranks features. The
    shape of this rank's weight is out_features / ranks x in_features. The backward pass adds up the gradient
    of `x` over all ranks. The gradients of weight and bias are those of all tokens, so no further reduction
    is necessary.

    in_features must be a multiple of 8, and out_features a multiple of 8 times the number of ranks. Tensors
    must be f16 or bf16, or f32 under `torch.autocast`. All ranks must call the layers in the same order, with
    the same shapes, and request the same gradients. `state_dict` contains this rank's part. Raises WeftError
    for other sizes and tensors.
    """

    _kind, _dimension = "out_features", 0

    @classmethod
    def of(cls, *layers: torch.nn.Linear, team: "Team") -> "ColumnParallelLinear":
        """This rank's part of `torch.nn.Linear` or `weft.nn.Linear` layers, whose weights are copied. Several
        layers of one input become one, with one gather: its features are those of the first layer that belong
        to this rank, then those of the second, and so on. Raises WeftError for layers that don't fit.
        """
        if not layers:
            raise WeftError("weft.nn.ColumnParallelLinear.of: needs at least one layer")
        return cls._of(layers, team)

    def forward(self, x: Tensor) -> Tensor:
        """The layer of this rank's tokens: of all tokens."""
        from weft.distributed import all_gather_matmul

        (rows, weight, scales), team = self._operands(x), self.team
        epilogue = epilogue_of(self.bias, self.activation)
        d = all_gather_matmul(rows, weight, team=team, transpose_b=True, epilogue=epilogue, scales=scales)
        return d if x.dim() == 2 else d.reshape(team.size * x.shape[0], *x.shape[1:-1], weight.shape[0])


class RowParallelLinear(_Parallel):
    """`activation(x @ weight.mT + bias)`, where each rank has a part of the input features of `x` and of the
    weight. The result has this rank's tokens of the sum over all ranks.

    `x` is ... x (in_features / ranks) and has all tokens, like the result of a `ColumnParallelLinear`. The
    ranks of `team` divide the first dimension of the result, which has all out_features. The shape of this
    rank's weight is out_features x (in_features / ranks). The bias is the same on all ranks. So is its
    gradient, which is that of all tokens.

    in_features must be a multiple of 8 times the number of ranks, and the first dimension of `x` a multiple
    of the number of ranks. The rest is as in `ColumnParallelLinear`.
    """

    _kind, _dimension = "in_features", 1

    @classmethod
    def of(cls, layer: torch.nn.Linear, *, team: "Team") -> "RowParallelLinear":
        """This rank's part of a `torch.nn.Linear` or `weft.nn.Linear`, whose weights are copied. Raises
        WeftError for a layer that doesn't fit.
        """
        return cls._of([layer], team)

    def forward(self, x: Tensor) -> Tensor:
        """The layer of all tokens: of this rank's tokens."""
        from weft.distributed import matmul_reduce_scatter

        (rows, weight, scales), size = self._operands(x), self.team.size
        if x.shape[0] % size:
            subject = f"{self._caller()}: the first dimension of x"
            raise not_a_multiple(subject, x.shape[0], size, ", the number of ranks")
        options: Any = {"transpose_b": True, "epilogue": epilogue_of(self.bias, self.activation)}
        options |= {"scales": scales, "shared_bias": True}
        d = matmul_reduce_scatter(rows, weight, team=self.team, **options)
        return d if x.dim() == 2 else d.reshape(x.shape[0] // size, *x.shape[1:-1], self.out_features)


def _part(whole: Tensor, dimension: int, team: "Team") -> Tensor:
    """This rank's part of a tensor that is divided along a dimension."""
    size = whole.shape[dimension] // team.size
    return whole.narrow(dimension, team.rank * size, size)


def _check_team(caller: str, team: object) -> None:
    from weft.distributed import Team

    if not isinstance(team, Team):
        raise WeftError(f"{caller}: team must be a weft.distributed.Team, got {shown(team)}")
