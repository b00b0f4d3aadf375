"""`weft.matmul_int4`: x @ weights.T for 4-bit weights."""

from weft.errors import shown
from weft.int4 import launches
from weft.int4.launches import refuse
from weft.int4.weights import Int4Weights
from weft.launch import arrays, libraries, torch_tensors
from weft.launch.arrays import Array
from weft.system import upper


def _watched(
    x: object, weights: object, *, bias: object = None, out: object = None, stream: object = None
) -> Array:
    """`matmul_int4` by an operator of PyTorch, which computes the same for plain tensors."""
    if out is not None or stream is not None:
        name = "out" if out is not None else "stream"
        raise refuse(f"{name} must be None where PyTorch differentiates or traces a call")
    return upper.torch().int4.matmul_int4(x, weights, bias)


@torch_tensors.traced_as(_watched)
def matmul_int4(
    x: object, weights: Int4Weights, *, bias: object = None, out: object = None, stream: object = None
) -> Array:
    """`x @ weights.T + bias`, where `weights` are those of `weft.quantize_int4` or `Int4Weights.pack`.

    `x` has any number of leading dimensions and rows of K elements of the type of the scales, bf16 or f16;
    `bias` has N such elements. Products are added in f32, and the result, of ... x N elements, is rounded
    once. `out` is an array for the result.

    Arrays are NumPy, PyTorch or CuPy arrays on the device of the weights. Arrays on the CPU are copied to the
    GPU; without a GPU, the emulator runs the kernel. Rows of x that TMA can't copy are first copied to padded
    rows. In PyTorch, the call has gradients of `x` and `bias`. Raises WeftError for arrays that don't fit,
    and for chips without `wgmma` (other than sm_90a).
    """
    if not isinstance(weights, Int4Weights):
        raise refuse(f"weights must be Int4Weights, as weft.quantize_int4 makes them, got {shown(weights)}")
    if libraries.TORCH.is_watching((x, bias, weights.packed, weights.scales, weights.zeros, out)):
        return _watched(x, weights, bias=bias, out=out, stream=stream)
    if arrays.library(type(x)) == "jax":
        raise refuse("arrays of JAX aren't supported: pass those of NumPy, PyTorch or CuPy")
    return launches.run(x, weights, bias, out, stream)
