"""Names of other languages and what to write in their place, for messages about unknown names."""

import re
from collections.abc import Iterable, Sequence

from weft.isa.suggest import did_you_mean
from weft.language.values.dtypes import FOREIGN


def _table(text: str) -> dict[str, str]:
    """For each name before the bar of a line, the text after it."""
    lines = (line.partition(" | ") for line in text.strip().splitlines())
    return {name: instead for names, _, instead in lines for name in names.split()}


INSTEAD = _table("""
program_id block_id blockIdx block_idx | w.cta(axis)
num_programs gridDim grid_dim | w.ctas(axis)
cdiv | w.ceil_div
arange iota | w.row(t) and w.column(t), the coordinates in a tile, or w.thread()
dot matmul mm | w.gemm, and of buffers, w.wait for its result
constexpr | meta-parameters: those after '*'
static_range | range of Python
static_print | print of Python, for what Python knows, such as t.shape
static_assert | assert of Python
device_print printf | w.print
device_assert | w.check
debug_barrier syncthreads | w.barrier
cast | x.to(w.bf16)
trans permute | x.T
broadcast broadcast_to | vectors as they are: one of a tile's rows or columns applies to all of it
expand_dims squeeze unsqueeze | vectors as they are: one of a tile's rows or columns applies to all of it
zeros_like | w.zeros(t.shape, like=t)
full_like | w.full(t.shape, value, like=t)
fma | a * b + c, which becomes one instruction
fdiv | /
div_rn | /, which rounds to nearest
sqrt_rn | w.sqrt, which rounds to nearest
cumprod | w.associative_scan(x, lambda a, b: a * b)
load_tensor_descriptor | ring.fill(x=x[row, column])
store_tensor_descriptor | w.store(t, y[row, column], via=buffer)
advance | x[row, column], with another row or column
clamp clip | w.minimum(w.maximum(x, low), high)
softmax | w.max, w.exp and w.sum: see softmax in docs/language.md
reduce | w.sum, w.max and w.min
gather | w.load(x[rows, column], (64, columns)), with a vector of rows
swizzle2d | w.tiles(order=…), or arithmetic on w.cta()
histogram | w.atomic_add(counts[t], 1), with a tile of numbers
make_tensor_descriptor | w.ring and ring.fill, which copy by TMA
make_block_ptr | x[row, column], the first element of a tile
multiple_of max_constancy max_contiguous assume | nothing: alignment follows from the arrays of a call
dot_scaled | w.gemm(a, b, sums, a_scales=…, b_scales=…), on buffers of a ring
jit | w.kernel, and w.inline for functions that it calls
autotune Config | kernel.tune
heuristics | Python, where the kernel is called
next_power_of_2 | any multiple of 8 for a tile's columns
compile | kernel.export
umulhi | w.mulhi, of u32 or u64
float8e4nv | w.e4m3
float8e5 | w.e5m2
popc popcount | w.ptx("popc.b32 $0, $1;", x, result=w.i32)
inline_asm_elementwise asm inline_asm | w.ptx
lane lane_id | w.thread() % 32
warp warp_id warp_idx | w.thread() // 32
num_warps | w.role(warpgroups=…), or w.kernel(threads=…)
num_threads threads | the number that w.kernel(threads=…) has
thread_id threadIdx thread_idx | w.thread()
shared_memory | w.shared, or w.ring
pipeline mbarrier | w.ring, whose stages have their barriers
elect_one | w.one_thread(), in 'with'
copy tma_load | ring.fill(x=x[row, column]), or w.load and w.store
local_tile | x[row, column], the first element of a tile
block_idx_in_cluster block_rank | w.cluster_rank()
tmem tmem_alloc | w.tensor_memory
syncwarp | w.warpgroup_barrier
float_as_int bitcast | x.bitcast(w.i32)
int_as_float | x.bitcast(w.f32)
shfl shfl_sync | w.shuffle(x, xor=1)
mean | w.sum(t, axis=1) / n
pow | x ** 2, or w.exp2(w.log2(x) * exponent)
log1p | w.log(1.0 + x)
expm1 | w.exp(x) - 1.0
softplus | w.log(1.0 + w.exp(x))
leaky_relu | w.where(x > 0.0, x, slope * x)
swish | w.silu
tan | w.sin(x) / w.cos(x)
rint | w.round, which rounds halves to even numbers
trunc | x.to(w.i32).to(w.f32)
logical_and | a & b
logical_or | a | b
logical_not | ~a
prod | w.associative_scan(x, lambda a, b: a * b), and its last element
cummax | w.associative_scan(x, w.maximum)
cummin | w.associative_scan(x, w.minimum)
var | w.sum((t - mean) * (t - mean), axis=1) / n
pi | math.pi
isnan | x != x
isinf | w.abs(x) == w.inf
isfinite | w.abs(x) < w.inf
ones | w.full(shape, 1.0)
empty | w.zeros
any | w.warp_any or w.warpgroup_any, or w.max of a tile of numbers
all | w.warp_any of the opposite
topk | w.max and w.argmax, once for each of the largest elements
random uniform | w.rand(seed, offset), or w.randn of a normal distribution
bernoulli | w.rand(seed, offset) < p
dropout | w.where(w.rand(seed, offset) >= p, t / (1.0 - p), 0.0)
one_hot | (w.column(t) == v).to(w.f32), with a vector of rows
pad | w.load, whose tiles may reach beyond an array: what is outside is 0, or outside=…
select | w.where(condition, a, b)
tril | w.where(w.column(t) <= w.row(t), t, 0.0)
triu | w.where(w.column(t) >= w.row(t), t, 0.0)
absolute | w.abs
fmax | w.maximum
fmin | w.minimum
amax | w.max
amin | w.min
reciprocal | w.rcp
InOut | w.Out, whose elements a kernel may read, too
""") | {name: f"w.{own}" for name, own in FOREIGN.items()}
"""Names of `triton.language` and `triton`, of CUDA, CuTe DSL, NumPy and PyTorch."""
WITHOUT = (
    *("sort", "flip", "cat", "join", "split", "interleave", "reshape", "ravel", "view"),
    *("xor_sum", "reduce_or"),
)
"""Names of `triton.language` that nothing here stands for."""
METHODS = _table("""
mean | w.sum(t, axis=1) / n
astype | x.to(type), such as x.to(w.bf16)
float | x.to(w.f32)
half | x.to(w.f16)
view | x.bitcast(w.i32), for the bits of an f32
reshape | w.where, to choose parts of a tile, such as those with w.column(t) // 32 == 1
permute transpose | x.T
item | x, a number of the GPU, as it is
size | x.shape
T | t.T, of the tile that w.load loads, or b.T, of a buffer that w.gemm multiplies
stride | x[row, column], which has the strides of the array
data_ptr | x[row, column], an element or the first one of a tile
to | w.load, whose fragment has .to, and store the result to a buffer of that type by w.store
""")
PARAMETERS = _table("""
mask | outside=…, a value for elements beyond the array, and w.where for others
other | outside=…
keep_dims keepdims keepdim | vectors as they are: one of a tile's rows or columns applies to all of it
dim | axis
return_indices | w.argmax or w.argmin, which return the indices
approximate | 0.5 * x * (1.0 + w.tanh(…)), since w.gelu is x * Phi(x)
""")
_OPTIONS = _table("""
num_warps | w.role(warpgroups=…) in the kernel, or w.kernel(threads=…)
num_stages | w.range(…, stages=…) or w.ring(stages, …) in the kernel, and a meta-parameter for its stages
num_ctas | w.kernel(cluster=…)
grid | w.kernel(grid=…), a function of the arrays
arch | w.kernel(arch=…), or an argument of the methods emulate and compile
warmup | kernel.compile
""")


def instead(name: str, names: Iterable[str]) -> str:
    """The end of a message about an unknown name: what to write in its place."""
    if name in INSTEAD:
        return f": use {INSTEAD[name]}"
    if name in WITHOUT:
        return ", and nothing in its place: docs/triton.md lists Triton's names"
    return did_you_mean(name, names)


def instead_of_option(name: str) -> str:
    """The end of a message about an unknown option of a call: what to write in its place."""
    return f": use {_OPTIONS[name]}" if name in _OPTIONS else ""


def instead_of_parameter(refused: str) -> str:
    """The code in place of a parameter that a function doesn't have, as Python's message `refused` names
    it, to append to a message.
    """
    match = re.search(r"unexpected keyword argument '(\w+)'", refused)
    return f"; for {match[1]}, use {PARAMETERS[match[1]]}" if match and match[1] in PARAMETERS else ""


def instead_of_attribute(name: str, owner: object, functions: Sequence[str]) -> str:
    """The end of a message about an unknown attribute of a value: what to write in its place."""
    if name in functions:
        return f": use w.{name}(x, …)"
    if name in METHODS:
        return f": use {METHODS[name]}"
    return did_you_mean(name, [each for each in dir(owner) if not each.startswith("_")])
