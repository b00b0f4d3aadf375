"""The classes of MLIR's bindings that annotations name, for type checkers only: the bindings have no types.

Any other name, and any attribute that isn't here, is `Any`.
"""

from collections.abc import MutableSequence, Sequence
from typing import Any

def __getattr__(name: str) -> Any: ...

class _Class(type):
    def __getattr__(cls, name: str) -> Any: ...
    def __setattr__(cls, name: str, value: Any) -> None: ...

class _Object(metaclass=_Class):
    __init__: Any
    def __getattr__(self, name: str) -> Any: ...
    def __setattr__(self, name: str, value: Any) -> None: ...
    def __enter__(self) -> Any: ...
    def __exit__(self, *args: object) -> None: ...

class AffineMap(_Object): ...

class Attribute(_Object):
    def __iter__(self) -> Any: ...
    def __getitem__(self, key: Any) -> Any: ...
    def __len__(self) -> int: ...

class Context(_Object): ...
class InsertionPoint(_Object): ...
class Location(_Object): ...
class Module(_Object): ...
class Type(_Object): ...

class Value(_Object):
    type: Type

class OpView(_Object):
    location: Location
    operation: Operation
    opview: OpView
    operands: MutableSequence[Value]
    regions: Sequence[Region]
    result: Value
    results: Sequence[Value]

Operation = OpView  # Weft takes either.

class Region(_Object):
    blocks: Sequence[Block]

class Block(_Object):
    arguments: Sequence[Value]
    region: Region
