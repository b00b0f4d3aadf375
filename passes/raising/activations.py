"""Recognizes activations by their structure, whatever operations compute it."""

from weft.passes.raising.expressions import (
    Apply,
    Constant,
    Expression,
    Form,
    Opaque,
    Sum,
    Unraisable,
    form,
    leaves,
)
from weft.passes.raising.formulas import (
    FORMATS,
    FUNCTIONS,
    Comparison,
    Formula,
    NoFormulaError,
    X,
    number,
)
from weft.passes.raising.formulas import activation_of as named


def inner_forms(top: Form, product: Sum) -> list[Form]:
    """The weighted sums of elements and of the product in an expression, largest first."""
    known: dict[int, Form] = {}
    found: list[Form] = []
    parts = list(top)
    seen: set[int] = set()
    while parts:
        part = parts.pop(0)
        if not isinstance(part, Apply) or id(part) in seen:
            continue
        seen.add(id(part))
        for operand in part.operands:
            each = form(operand, known)
            parts += each
            parts += [operand] if isinstance(operand, Apply) else []
            simple = not any(key is None or isinstance(key, Apply | Opaque) for key in each)
            if simple and product in each and each not in found:
                found.append(each)
    return found


def activation_of(top: Form, argument: Form, product: Sum) -> str:
    """The activation of `argument`, a weighted sum with the product, that a weighted sum is without the
    elements in it. Raises Unraisable where there is none, and for a function of more than the argument.
    """
    read = _Reader(argument)
    share = top.get(product, 0.0) / argument[product]
    try:
        total = number(top.get(None, 0.0)) + (number(share) * X if share else Formula())
        for part, weight in top.items():
            if isinstance(part, Apply):
                total += number(weight) * read.formula(part)
    except NoFormulaError:
        name = None
    else:
        name = named(total)
    if name is None:
        raise Unraisable("is no activation of a sum")
    return name


class _Reader:
    """Reads expressions as formulas whose variable is a weighted sum."""

    def __init__(self, argument: Form) -> None:
        self._argument = argument
        self._known: dict[int, Formula] = {}
        self._forms: dict[int, Form] = {}

    def formula(self, expression: Expression) -> Formula:
        """The formula of an expression. Raises NoFormulaError where there is none."""
        if id(expression) not in self._known:
            same = form(expression, self._forms) == self._argument
            self._known[id(expression)] = X if same else self._formula(expression)
        return self._known[id(expression)]

    def _formula(self, expression: Expression) -> Formula:
        if isinstance(expression, Constant):
            return number(expression.value, expression.kind)
        if not isinstance(expression, Apply):
            raise NoFormulaError("depends on more than the argument")
        name, operands = expression.name, expression.operands
        if name in ("extend", "round") and expression.kind in FORMATS:
            return self.formula(operands[0])
        if name == "select":
            condition, *arms = operands
            return self._comparison(condition).select(*map(self.formula, arms))
        if name not in FUNCTIONS:
            raise NoFormulaError("applies another function")
        return FUNCTIONS[name](*map(self.formula, operands))

    def _comparison(self, condition: Expression) -> Comparison:
        """A comparison of numbers; its name begins with whether they are ordered, unordered or signed."""
        if not isinstance(condition, Apply) or condition.name[1:] not in ("gt", "ge", "lt", "le"):
            raise NoFormulaError("selects by something else than a comparison")
        left, right = map(self.formula, condition.operands)
        of_nan = {"o": False, "u": True, "s": None}[condition.name[0]]
        return Comparison(condition.name[1:], left, right, of_nan)


def products_in(top: Form) -> list[Sum]:
    """The products that a weighted sum is computed from."""
    return list(dict.fromkeys(leaf for part in top if part for leaf in leaves(part) if isinstance(leaf, Sum)))
