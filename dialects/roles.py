"""What an operand of `tile.matmul` after D may be, and what is done to the elements of D."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from weft.dialects.schedule import PROMOTED
from weft.dialects.tile_types import FP8_TYPES, matrix_complaint
from weft.mlir import ir

_ADDED_TYPES = ("f32", "f16", "bf16", "i32")
OUTPUT_TYPES = (*_ADDED_TYPES, *FP8_TYPES)


@dataclass(frozen=True)
class Role:
    """What an operand must be: its element types, and what each of its dimensions is as long as (a size of
    the product, or the blocks of 128 in one). Matrices may come in batches.
    """

    elements: Sequence[str]
    sizes: Sequence[str]
    meaning: str

    @property
    def is_added(self) -> bool:
        """Whether it becomes a part of D, and has such elements."""
        return set(_ADDED_TYPES) <= set(self.elements)

    @property
    def ranks(self) -> tuple[int, ...]:
        """Those that it may have."""
        return (1,) if len(self.sizes) == 1 else (2, 3)


ROLES = {
    "c": Role(OUTPUT_TYPES, "MN", "what beta scales"),
    "bias": Role(_ADDED_TYPES, "N", "added to every row"),
    "residual": Role(_ADDED_TYPES, "MN", "added to what the activation gives"),
    "scale_a": Role(("f32",), ("K/128", "M"), "scales each row of A, for each block of K"),
    "scale_b": Role(("f32",), ("N/128", "K/128"), "scales each block of B"),
    "groups": Role(("i32",), ("groups",), "which B each row of A has, or how many rows of a batch there are"),
}
ACTIVATIONS = ("relu", "gelu", "gelu_tanh", "silu")
"""Functions of each element: max(x, 0); x * Phi(x), exactly and by tanh; x / (1 + exp(-x))."""
_OF_INTEGERS = ("relu",)


def role_names(attribute: Any, count: int) -> list[str]:
    """The role of each of `count` operands, as the attribute `roles` tells; without it the only one is C."""
    if attribute is None:
        return ["c"][:count]
    return [role.value for role in attribute]


def role_complaint(attribute: Any, values: Sequence[Any]) -> str | None:
    """Why the attribute doesn't give each value a role of its own, or a value isn't what its role wants."""
    if attribute is None:
        if len(values) > 1:
            return f"expects A, B, D and at most one C without 'roles', got {3 + len(values)} operands"
    elif not isinstance(attribute, ir.ArrayAttr) or not all(isinstance(r, ir.StringAttr) for r in attribute):
        return f"expects attribute 'roles' to be an array of strings, got {attribute}"
    elif len(attribute) != len(values):
        return f"expects a role for each of {len(values)} operands after D, got {attribute}"
    found = role_names(attribute, len(values))
    for role, value in zip(found, values, strict=True):
        if role not in ROLES:
            return f"has an operand with unknown role '{role}': roles are {', '.join(ROLES)}"
        if found.count(role) > 1:
            return f"expects one operand with role '{role}', got {found.count(role)}"
        wanted = ROLES[role]
        if wrong := matrix_complaint(title(role), value, wanted.elements, *wanted.ranks):
            return wrong
    return None


def extents(m: Any, n: Any, k: Any, groups: Any, blocks: Callable[[Any, int], Any]) -> dict[str, Any]:
    """The sizes that `ROLES` speak of; `blocks` tells how many blocks of so many a size has."""
    return {"M": m, "N": n, "K/128": blocks(k, PROMOTED), "N/128": blocks(n, PROMOTED), "groups": groups}


def title(role: str) -> str:
    """What messages call an operand: C is a letter like A, B and D."""
    return "C" if role == "c" else role


def activation_complaint(activation: Any, integers: bool) -> str | None:
    """Why an activation isn't one, or none for integers."""
    if activation is None:
        return None
    known = _OF_INTEGERS if integers else ACTIVATIONS
    if activation not in known:
        given = f"'{activation}'" if isinstance(activation, str) else str(activation)
        return f"expects activation {' or '.join(known)}{' for integers' if integers else ''}, got {given}"
    return None
