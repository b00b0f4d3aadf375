"""Syntax trees of Python's source."""

import ast

from weft.system import locks

_parsing = locks.lock()


def parse(text: str, file: str = "<unknown>") -> ast.Module:
    """As `ast.parse`, by one thread at a time: before Python 3.12, all threads count the depth of their trees
    in one variable, so that SystemError is raised now and then.
    """
    with _parsing:
        return ast.parse(text, file)
