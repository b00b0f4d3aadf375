"""A module of PyTorch as one callable: what `from_torch` returns."""

from collections.abc import Sequence
from typing import Any

from weft.errors import WeftError, shown
from weft.launch import graph
from weft.launch.arrays import library
from weft.launch.program import Program
from weft.launch.torch_export import Exported, Input, state_of


class TorchProgram:
    """A module of PyTorch as kernels: call it as the module. `program` has the kernels."""

    def __init__(self, program: Program, module: object, exported: Exported) -> None:
        self.program = program
        self._module, self._exported = module, exported

    def __call__(self, *inputs: object, stream: object = None, on: str | None = None) -> Any:
        """Returns what the module returns for these tensors, without gradients. Raises WeftError for inputs
        of other types and sizes than those of the example.
        """
        self._check(inputs)
        return self._whole(self.program(*self._weights(), *inputs, stream=stream, on=on))

    def capture(self, *inputs: object) -> graph.Graph:
        """Captures a call with these tensors as a CUDA graph, as `Program.capture` does. A replay reads the
        parameters that the module has now, also after they have changed in place.
        """
        self._check(inputs)
        captured = self.program.capture(*self._weights(), *inputs)
        captured.results = self._whole(captured.results)
        return captured

    def _whole(self, results: object) -> Any:
        return self._exported.whole(results if isinstance(results, tuple) else (results,))

    def _check(self, inputs: Sequence[Any]) -> None:
        wanted = self._exported.inputs
        if len(inputs) != len(wanted):
            what = f"{len(wanted)} input{'' if len(wanted) == 1 else 's'}"
            raise WeftError(f"the program takes {what}, as in the example; got {len(inputs)}")
        for number, (each, like) in enumerate(zip(inputs, wanted, strict=True)):
            if library(type(each)) != "torch":
                raise WeftError(f"input {number} must be a tensor of PyTorch; got {shown(each)}")
            if not like.fits(each):
                got = Input(each.dtype, tuple(each.shape))
                hint = (
                    ""
                    if each.dtype != like.dtype
                    else "; dynamic_shapes of weft.from_torch allows more sizes"
                )
                raise WeftError(f"input {number} must be {like}, as in the example; got {got}{hint}")

    def _weights(self) -> list[Any]:
        state = state_of(self._module)
        return [state[name].detach() for name in self._exported.names]
