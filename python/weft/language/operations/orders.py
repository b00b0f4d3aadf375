"""The memory orders and scopes of atomics, signals and fences, as users name them."""

from collections.abc import Sequence

from weft.errors import shown
from weft.isa.atomics import ORDERS, SCOPES
from weft.isa.chips import describe
from weft.language.capture import trace
from weft.language.messages.mistakes import mistake
from weft.passes.builders.atomics import Order


def ordered(
    caller: str, order: object, scope: object, legal: Sequence[str] = ORDERS, default: str = ORDERS[-1]
) -> Order | None:
    """The order and scope of an operation, of which one may be None; None if both are."""
    if order is None and scope is None:
        return None
    order, scope = order or default, scope or "gpu"
    if order not in legal:
        raise mistake(f"order of {caller} must be one of {', '.join(legal)}, got {shown(order)}")
    if scope not in SCOPES:
        raise mistake(f"scope must be one of {', '.join(SCOPES)}, got {shown(scope)}")
    chip = trace.current().chip
    if chip not in SCOPES[str(scope)]:
        raise mistake(f"scope {scope} needs {describe(SCOPES[str(scope)])}, got {chip}: use gpu")
    return Order(str(order), str(scope))
