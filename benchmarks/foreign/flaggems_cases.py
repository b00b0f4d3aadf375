"""FlagGems' functions against those of PyTorch that they replace, on samples of PyTorch's database of ops."""

from collections.abc import Iterator
from functools import partial

import torch
import triton_driver
from harness import Case, Results
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

triton_driver.activate(90)

import flag_gems  # noqa: E402

Call = tuple[torch._ops.OpOverload, tuple[object, ...], dict[str, object]]
RANDOM = ("rand", "normal", "bernoulli", "dropout", "uniform", "exponential", "multinomial")
MOST_ELEMENTS, SAMPLES = 4096, 6


def clones(values: object) -> object:
    return tree_map(lambda v: v.detach().clone() if isinstance(v, torch.Tensor) else v, values)


class Recording(TorchDispatchMode):
    """Keeps a call of each ATen op that FlagGems has, one with more than one element where there is one."""

    def __init__(self, names: frozenset[str]) -> None:
        super().__init__()
        self.names, self.calls = names, dict[str, Call]()

    def __torch_dispatch__(self, function, kinds, args=(), kwargs=None):
        name = function._schema.name.removeprefix("aten::") + f".{function._schema.overload_name}".rstrip(".")
        if name in self.names and name not in self.calls:
            tensors = [v for v in tree_flatten((args, kwargs or {}))[0] if isinstance(v, torch.Tensor)]
            sizes = [t.numel() for t in tensors]
            if sizes and 1 < max(sizes) <= MOST_ELEMENTS and min(sizes):
                self.calls[name] = function, *clones((args, kwargs or {}))
        return function(*args, **kwargs or {})


def recorded(names: frozenset[str]) -> dict[str, Call]:
    """The calls, by the names of the ops."""
    recording = Recording(names)
    for op in op_db:
        kind = next((t for t in (torch.float32, torch.int64, torch.bool) if t in op.dtypes), None)
        if kind is None or op.name.startswith(("linalg.", "fft.", "jiterator")):
            continue
        torch.manual_seed(1)
        for number, sample in enumerate(op.sample_inputs("cpu", kind)):
            if number == SAMPLES:
                break
            with recording:
                try:
                    op(sample.input, *sample.args, **sample.kwargs)
                    if op.inplace_variant:
                        op.inplace_variant(sample.input.clone(), *sample.args, **sample.kwargs)
                except (RuntimeError, NotImplementedError, IndexError):
                    continue  # PyTorch refuses some of its samples out of their test's context
    return recording.calls


def case(theirs: object, call: Call) -> Results:
    function, args, kwargs = call
    (args, kwargs), (others, options) = clones((args, kwargs)), clones((args, kwargs))
    want, got = function(*others, **options), theirs(*args, **kwargs)
    results = (tree_flatten(x)[0] for x in ((got, args), (want, others)))
    for one, other in zip(*results, strict=True):
        if isinstance(one, torch.Tensor):
            yield one, other, 1e-3


def cases() -> Iterator[Case]:
    functions = {entry[0]: entry[1] for entry in flag_gems._FULL_CONFIG}
    calls = recorded(frozenset(functions))
    for name in sorted(calls):
        if not any(word in name for word in RANDOM):
            yield name, partial(case, functions[name], calls[name])
