"""What messages advise where a caller passes something that isn't an array of a known type."""

from collections.abc import Container
from typing import Any

import numpy as np

_PARTS = ": multiply real and imaginary parts on their own"


def to_array(value: object) -> str:
    """How to make an array of something else; empty where there is no usual way."""
    if isinstance(value, (list, tuple)):
        return ": numpy.asarray(x, dtype) makes an array of it"
    if isinstance(value, np.generic):
        return ""
    try:
        memoryview(value).release()  # type: ignore[arg-type]
    except TypeError:
        return ""
    return ": numpy.asarray(x) or numpy.frombuffer(x, dtype) makes an array of it"


def of_tensor(dtype: Any) -> str:
    """How to convert a tensor of PyTorch of an unknown type; empty where there is no usual way."""
    if dtype.is_complex:
        return _PARTS
    return ": convert it by x.float()" if dtype.is_floating_point else ""


def to_one_of(known: Container[np.dtype[Any]], dtype: np.dtype[Any]) -> str:
    """How to convert an array of an unknown type to one of the known types."""
    native = dtype.newbyteorder("=")
    if dtype.names:
        return f": select a field, such as x[{dtype.names[0]!r}]"
    if native in known:
        return f": x.astype({native.name!r}) has this machine's byte order"
    if dtype.kind == "c":
        return _PARTS
    if dtype.kind == "f":
        return ": convert it by x.astype('float64')"
    return ": convert it by x.astype('float32')" if dtype.kind in "OSU" else ""
