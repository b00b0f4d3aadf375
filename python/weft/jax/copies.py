"""Copies of operands that kernels of a GPU want K-major, or with rows at multiples of 16 bytes: XLA makes
them before the product, in memory of its own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import jax.numpy as jnp
from jax import Array

from weft.errors import WeftError
from weft.launch import runtime
from weft.multiply import launches
from weft.multiply.launches import Rows
from weft.multiply.operands import Operands
from weft.multiply.product import Product
from weft.multiply.xla_product import Described, operands_of, planned, text_of


@dataclass(frozen=True)
class Copies:
    """The product that reads the copies, the operands that are transposed, and the pitches of those whose
    rows are padded, in elements.
    """

    product: Product
    transposed: frozenset[int] = frozenset()
    pitches: Mapping[int, int] = field(default_factory=dict)

    def text(self, operands: Sequence[Described], result: Described) -> str:
        """The text of the product, for `operands` before the copies."""
        described = [
            ((*shape[:-2], shape[-1], shape[-2]), dtype) if number in self.transposed else (shape, dtype)
            for number, (shape, dtype) in enumerate(operands)
        ]
        return text_of(self.product, described, result, self.pitches)

    def made(self, *operands: Array) -> list[Array]:
        """The operands, some of them copied, by operations of JAX."""
        copied = []
        for number, x in enumerate(operands):
            if number in self.transposed:
                x = jnp.swapaxes(x, -1, -2)
            if number in self.pitches:
                wider = self.pitches[number] - x.shape[-1]
                x = jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, wider)])
            copied.append(x)
        return copied


def of(product: Product, described: Sequence[Described], result: Described, ordinal: int = 0) -> Copies:
    """The copies for a product on a GPU of this host, the same as `weft.matmul` makes of other libraries'
    arrays; none without a GPU, or where no kernel multiplies them.
    """
    if runtime.available() is not None:
        return Copies(product)
    *views, out = planned((*described, result), ordinal)
    try:
        operands = operands_of(replace(product, arch=None), views, out)
        _, copied = launches.kernel_of(operands)
    except WeftError:
        return Copies(product)
    return _of_launch(product, operands, copied)


def _of_launch(product: Product, operands: Operands, copied: Mapping[int, Rows]) -> Copies:
    """The copies of these rows; numbers are those of `operands.views`, where the result is the third."""
    swapped, pitches = set[int](), dict[int, int]()
    transposes = [product.transpose_a, product.transpose_b]
    final = operands.k_major(tuple(n for n, rows in copied.items() if rows.size)).transposed
    for number, rows in copied.items():
        padded = rows.copy.in_bytes
        index = number - (number > 2)
        if number < 2:
            # A matrix of one row or column may be read as its transpose.
            if final[number] != transposes[number]:
                swapped.add(index)
            transposes[number] = final[number]
        if padded.strides[-2] != padded.shape[-1]:
            pitches[index] = padded.strides[-2]
    product = replace(product, transpose_a=transposes[0], transpose_b=transposes[1])
    return Copies(product, frozenset(swapped), pitches)
