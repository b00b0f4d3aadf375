"""Packages of higher layers that lower ones call.

`weft`, which every process imports before any of its modules, sets the functions that import them.
"""

from collections.abc import Callable
from types import ModuleType

weft: Callable[[], ModuleType]
torch: Callable[[], ModuleType]
"""Imports `weft.torch`, and so PyTorch."""
jax: Callable[[], ModuleType]
team_operators: Callable[[], ModuleType]
"""Imports PyTorch's operators of `weft.distributed`."""
