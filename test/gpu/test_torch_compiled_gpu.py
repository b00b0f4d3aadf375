"""Programs of torch.compile on a GPU: plain launches, CUDA graphs, streams and epilogues by pattern."""

import pytest

torch = pytest.importorskip("torch")

from gpu_marks import GPU  # noqa: E402
from torch._inductor.utils import run_and_get_code  # noqa: E402
from torch.nn import functional  # noqa: E402

import weft  # noqa: E402
import weft.inductor  # noqa: E402
import weft.nn  # noqa: E402
from weft.multiply import plans  # noqa: E402

pytestmark = GPU


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()
    with torch._inductor.config.patch(force_disable_caches=True):
        yield
    weft.inductor.disable()
    torch._dynamo.reset()


def numbers(*shape):
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16)


def close(found, wanted):
    assert found.shape == wanted.shape
    assert (found.float() - wanted.float()).norm() <= 1e-2 * wanted.float().norm()


class MLP(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = (
            weft.nn.Linear(*sizes, device="cuda", dtype=torch.bfloat16) for sizes in ((256, 512), (512, 256))
        )

    def forward(self, x):
        return x + self.down(functional.gelu(self.up(x), approximate="tanh"))


def step(model, x):
    model.zero_grad()
    leaf = x.clone().requires_grad_()
    d = model(leaf)
    d.float().square().mean().backward()
    return [d.detach().clone(), leaf.grad.clone(), *(each.grad.clone() for each in model.parameters())]


@pytest.mark.parametrize("patterns", [False, True])
@pytest.mark.parametrize("mode", ["default", "reduce-overhead", "max-autotune"])
def test_steps_of_training(mode, patterns):
    if patterns:
        weft.inductor.enable()
    model = MLP()
    compiled = torch.compile(model, mode=mode, fullgraph=True)
    for rows in (128, 128, 128, 200, 128):
        x = numbers(4, rows, 256)
        torch.compiler.cudagraph_mark_step_begin()
        for ours, theirs in zip(step(compiled, x), step(model, x), strict=True):
            close(ours, theirs)


def test_calls_of_a_program_are_planned_once(monkeypatch):
    model = MLP()
    with torch.no_grad():
        x = numbers(128, 256)
        found, texts = run_and_get_code(torch.compile(model, fullgraph=True), x)
        close(found, model(x))
        assert "torch.ops.weft" not in "".join(texts)
        compiled = torch.compile(model, fullgraph=True)
        compiled(x)
        monkeypatch.setattr(plans, "planned", None)
        for _ in range(3):
            x = numbers(128, 256)
            close(
                compiled(x),
                x
                + functional.linear(
                    functional.gelu(functional.linear(x, model.up.weight, model.up.bias), approximate="tanh"),
                    model.down.weight,
                    model.down.bias,
                ),
            )


def test_inputs_at_any_address():
    b = numbers(256, 64)
    compiled = torch.compile(lambda a: weft.matmul(a, b) + 1, fullgraph=True)
    memory = numbers(128 * 256 + 8)
    for offset in (0, 1, 8, 3):
        a = memory[offset : offset + 128 * 256].view(128, 256)
        close(compiled(a), a @ b + 1)


def test_programs_run_on_the_current_stream():
    a = numbers(2048, 2048)
    compiled = torch.compile(lambda a, b: weft.matmul(a, b).relu(), fullgraph=True)
    compiled(a, a)
    for _ in range(3):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            b = torch.zeros_like(a)
            torch.cuda._sleep(20_000_000)
            b.fill_(1)
            d = compiled(a, b)
        torch.cuda.current_stream().wait_stream(side)
        close(d, (a @ torch.ones_like(a)).relu())


def test_workspaces_of_streams_are_apart():
    # Few rows and a long K: partial sums, in memory of the launch's stream.
    pairs = [(numbers(64, 16384), numbers(16384, 64)) for _ in range(4)]
    wanted = [a @ b for a, b in pairs]
    streams = [torch.cuda.Stream() for _ in pairs]
    compiled = torch.compile(lambda a, b: weft.matmul(a, b), fullgraph=True)
    compiled(*pairs[0])
    torch.cuda.synchronize()
    for _ in range(5):
        found = []
        for stream, pair in zip(streams, pairs, strict=True):
            with torch.cuda.stream(stream):
                found.append((weft.matmul(*pair), compiled(*pair)))
        torch.cuda.synchronize()
        for each, exact in zip(found, wanted, strict=True):
            for d in each:
                close(d, exact)


def test_epilogues_by_pattern():
    weft.inductor.enable()
    fusions = torch._inductor.config.post_grad_custom_pre_pass
    layer = torch.nn.Linear(256, 512, device="cuda", dtype=torch.bfloat16)
    x, y = numbers(4, 64, 256), numbers(4, 64, 512)
    for function in (functional.relu, functional.gelu, functional.silu):
        count = fusions.count

        def layers(x, y, function=function):
            return function(layer(x)) + y

        with torch.no_grad():
            found, texts = run_and_get_code(torch.compile(layers, fullgraph=True), x, y)
            close(found, layers(x, y))
        assert fusions.count == count + 1 and "triton_poi" not in "".join(texts)
