"""The addresses of a buffer's elements, computed from the definition of its layout."""

import numpy as np


def octets(kind, base):
    """The address of every byte of every element of a `tile.buffer` or `tile.map` that begins at `base`,
    `[rows, columns, bytes]`.
    """
    size, layout = kind.element_type.width // 8, kind.layout
    digits = np.unravel_index(np.arange(layout.size), [it.extent for it in layout.shard])
    offsets = size * sum(digit * it.stride for digit, it in zip(digits, layout.shard, strict=True))
    if layout.swizzle:
        offsets = layout.swizzle.swizzle_offset(offsets)
    return base + offsets.reshape(kind.shape)[..., None] + np.arange(size)
