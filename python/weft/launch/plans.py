"""Plans of calls: launches that are found by what they depend on, the types, sizes, strides and alignment of
arrays and the options. The identity of arrays doesn't matter: a program's activations are new in every call.
"""

from collections.abc import Hashable, Sequence
from typing import Any

from weft.launch import torch_keys
from weft.system import locks

Found = tuple[Hashable, Sequence[int], Any]
"""The key of a call, the addresses of its arrays, and its plan or None."""


class Plans:
    """A bounded table of plans, for any number of threads. Beyond `most`, it drops the oldest ones."""

    def __init__(self, most: int = 4096) -> None:
        self._most = most
        self._known: dict[Hashable, Any] = {}
        self._lock = locks.lock()
        self.get = self._known.get
        """`get(key)` is the plan of a key, or None."""
        self._describe: torch_keys.Describe | None = None

    def add(self, key: Hashable, plan: object) -> None:
        with self._lock:
            if len(self._known) >= self._most:
                for old in list(self._known)[: self._most // 4]:
                    del self._known[old]
            self._known[key] = plan

    def clear(self) -> None:
        with self._lock:
            self._known.clear()

    def __len__(self) -> int:
        return len(self._known)

    def found(self, given: Sequence[object], options: tuple[object, ...]) -> Found | None:
        """What is known of a call with these arrays, as `torch_keys.describer` takes them, and options; None
        unless all arrays are plain tensors.
        """
        describe = self._describe or torch_keys.describer()
        if describe is None:
            return None
        self._describe, described = describe, describe(*given)
        if described is None:
            return None
        # With the types: True and 1.0 are equal, but not both are legal.
        key = described[0], options, tuple(map(type, options))
        try:
            return key, described[1:], self.get(key)
        except TypeError:  # of an option that can't be hashed
            return None
