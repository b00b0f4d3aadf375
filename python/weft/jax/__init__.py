"""Weft's products inside JAX's programs: under `jax.jit`, gradients, `jax.vmap`, `jax.shard_map` and export.

Importing this imports JAX, and registers the function that XLA calls.
"""

from weft.errors import missing_package

try:
    import jax  # noqa: F401
except ModuleNotFoundError as failure:
    raise missing_package(failure, "weft.jax", "jax", "jax") from None

from weft.jax import attention as _attention  # noqa: F401  registers the kernels
from weft.jax import batching, derivatives, sharding  # noqa: F401  they register their rules with JAX
from weft.jax.distributed import all_gather_matmul, matmul_all_reduce, matmul_reduce_scatter
from weft.jax.products import matmul

__all__ = ["all_gather_matmul", "matmul", "matmul_all_reduce", "matmul_reduce_scatter"]
