"""`weft.nn.convert`: a model's linear layers by Weft."""

from collections.abc import Callable

import torch

from weft.errors import WeftError, shown
from weft.nn.fp8 import MULTIPLE, checked_promotion, checked_recipe
from weft.nn.linear import Linear

Filter = Callable[[str, torch.nn.Linear], bool]


def convert(
    model: torch.nn.Module,
    filter: Filter | None = None,
    *,
    fuse_wgrad_accumulation: bool = False,
    fp8: str | None = None,
    fp8_promote: bool | None = None,
) -> torch.nn.Module:
    """Converts each `torch.nn.Linear` of a model to a `weft.nn.Linear`, in place, and returns the model.

    A layer remains the same object, with its parameters, hooks and names. Therefore optimizers, state dicts
    and tied weights aren't affected. `filter(name, layer)` selects the layers to convert, by their names in
    `model.named_modules()`. Subclasses of `torch.nn.Linear` aren't converted, because they may have a
    `forward` of their own. `fuse_wgrad_accumulation`, `fp8` and `fp8_promote` are as in `weft.nn.Linear`.
    Layers whose sizes aren't multiples of 16 are converted without fp8. Raises WeftError if `model` isn't a
    `torch.nn.Module`.
    """
    if not isinstance(model, torch.nn.Module):
        raise WeftError(f"weft.nn.convert: model must be a torch.nn.Module, got {shown(model)}")
    if filter is not None and not callable(filter):
        raise WeftError(
            f"weft.nn.convert: filter must be a function of a name and a layer, got {shown(filter)}"
        )
    checked_recipe("weft.nn.convert", fp8)
    checked_promotion("weft.nn.convert", fp8_promote)
    for name, layer in model.named_modules():
        if type(layer) is torch.nn.Linear and (filter is None or filter(name, layer)):
            layer.activation, layer.fuse_wgrad_accumulation = None, fuse_wgrad_accumulation
            fits = layer.in_features % MULTIPLE == layer.out_features % MULTIPLE == 0
            layer.fp8, layer.fp8_promote = fp8 if fits else None, fp8_promote
            layer.__class__ = Linear
    return model
