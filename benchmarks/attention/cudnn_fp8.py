"""cuDNN's attention of e4m3, by its Python package `nvidia-cudnn-frontend`, for the benchmarks beside it.

PyTorch's `scaled_dot_product_attention` has no 8-bit types. On sm_90, cuDNN's output is e4m3, too.
"""

import functools
import math
from typing import Any

import torch

NAME = "cudnn e4m3"
MISSING = "nvidia-cudnn-frontend is not installed"
LARGEST = 448.0  # of e4m3
SHARE_SCALE = 256.0  # shares are at most 1
LAYOUTS = "bhtd", "bthd"


def calls(sets: list[list[torch.Tensor]], causal: bool) -> "tuple[dict[str, Attention], dict[str, str]]":
    """`Attention` in each layout, by name; and where there is none, the reason."""
    cudnn = package()
    if cudnn is None:
        return {}, {NAME: MISSING}
    found, failed = dict[str, Attention](), dict[str, str]()
    for layout in LAYOUTS:
        name = f"{NAME} {layout}"
        try:
            found[name] = Attention(sets, causal, layout)
        except (RuntimeError, cudnn.cudnnGraphNotSupportedError) as error:
            failed[name] = str(error).splitlines()[0][:160]
    return found, failed


@functools.cache
def package() -> Any:
    """The package, or None where it isn't installed."""
    torch.backends.cudnn.version()  # loads PyTorch's cuDNN, which the package then finds
    try:
        import cudnn
    except ImportError:
        return None
    return cudnn


@functools.cache
def handle() -> Any:
    """cuDNN's state, one for all calls."""
    return package().create_handle()


class Attention:
    """cuDNN's attention of one or more sets of q, k and v (batch, heads, tokens, size), whose scales are 1.
    The arrays and the output are in memory in `layout`.
    """

    def __init__(self, sets: list[list[torch.Tensor]], causal: bool, layout: str) -> None:
        self._sets = [[in_memory(each, layout) for each in arrays] for arrays in sets]
        self._out = in_memory(torch.zeros_like(sets[0][0]), layout)
        largest = max(float(v.float().abs().max()) for _, _, v in sets)
        self._out_scale = 2.0 ** math.floor(math.log2(LARGEST / largest))
        numbers = {"descale_q": 1.0, "descale_k": 1.0, "descale_v": 1.0, "scale_o": self._out_scale}
        numbers |= {"scale_s": SHARE_SCALE, "descale_s": 1 / SHARE_SCALE}
        self._scales = {
            name: torch.full((1, 1, 1, 1), number, device="cuda") for name, number in numbers.items()
        }
        # Of shares and of the output, the largest elements are results, too.
        self._results = [self._out, *(torch.zeros(1, 1, 1, 1, device="cuda") for _ in range(2))]
        self._graph, tensors = self._built(causal)
        self._workspace = torch.empty(
            max(self._graph.get_workspace_size(), 1), device="cuda", dtype=torch.uint8
        )
        self._bound = [
            dict(zip(tensors, (*arrays, *self._scales.values(), *self._results), strict=True))
            for arrays in self._sets
        ]

    def __call__(self, number: int = 0) -> None:
        """Computes a set on PyTorch's current stream."""
        package().set_stream(handle=handle(), stream=torch.cuda.current_stream().cuda_stream)
        self._graph.execute(self._bound[number], self._workspace, handle=handle())

    def output(self) -> torch.Tensor:
        """That of the last call, in f32."""
        return self._out.float() / self._out_scale

    def _built(self, causal: bool) -> tuple[Any, list[Any]]:
        """The graph, and its tensors in the order of arrays, scales and results."""
        cudnn = package()
        f32, e4m3 = cudnn.data_type.FLOAT, cudnn.data_type.FP8_E4M3
        graph = cudnn.pygraph(
            io_data_type=e4m3, intermediate_data_type=f32, compute_data_type=f32, handle=handle()
        )
        arrays = [described(graph, each, e4m3) for each in self._sets[0]]
        scales = {name: described(graph, each, f32) for name, each in self._scales.items()}
        out, _, *others = graph.sdpa_fp8(
            *arrays,
            **scales,
            generate_stats=False,
            attn_scale=self._out.shape[-1] ** -0.5,
            diagonal_alignment=cudnn.diagonal_alignment.TOP_LEFT,
            right_bound=0 if causal else None,
        )
        for tensor, like in zip((out, *others), self._results, strict=True):
            tensor.set_output(True).set_dim(list(like.shape)).set_stride(list(like.stride()))
            tensor.set_data_type(e4m3 if tensor is out else f32)
        graph.validate()
        graph.build_operation_graph()
        graph.create_execution_plans([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
        graph.check_support()
        graph.build_plans()
        return graph, [*arrays, *scales.values(), out, *others]


def in_memory(array: torch.Tensor, layout: str) -> torch.Tensor:
    """The array; for `bthd`, with tokens before heads in memory."""
    if layout == "bhtd":
        return array.contiguous()
    return array.transpose(1, 2).contiguous().transpose(1, 2)


def described(graph: Any, array: torch.Tensor, kind: Any) -> Any:
    return graph.tensor(dim=list(array.shape), stride=list(array.stride()), data_type=kind)
