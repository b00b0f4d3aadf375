"""Small PTX kernels for the emulator's tests: a body that each thread executes on its element of arrays."""

import numpy as np

from weft import emulator

HEAD = ".version 9.5\n.target {target}\n.address_size 64\n"


def module(text, target="sm_80"):
    return emulator.Module(HEAD.format(target=target) + text)


def bits_of(array):
    return array.dtype.itemsize * 8


def kernel(body, inputs, outputs, declare="", target="sm_80"):
    """PTX of a kernel whose threads load %a0, %a1, … (the inputs), run `body` and store %d0, %d1, …

    A bool array is a predicate; `%i` is the thread's number.
    """
    params, load, store, registers = [], [], [], []
    for kind, arrays in (("a", inputs), ("d", outputs)):
        for n, array in enumerate(arrays):
            name, size = f"{kind}{n}", array.dtype.itemsize
            params.append(f".param .u64 p_{name}")
            access = [f"ld.param.u64 %p, [p_{name}];", f"mad.wide.u32 %p, %i, {size}, %p;"]
            if array.dtype == bool:
                registers += [f".reg .pred %{name};", f".reg .b32 %w_{name};"]
                load_it = [f"ld.global.u8 %w_{name}, [%p];", f"setp.ne.u32 %{name}, %w_{name}, 0;"]
                store_it = [f"selp.u32 %w_{name}, 1, 0, %{name};", f"st.global.u8 [%p], %w_{name};"]
            else:
                bits = max(16, 8 * size)
                registers.append(f".reg .b{bits} %{name};")
                load_it = [f"ld.global.b{8 * size} %{name}, [%p];"]
                store_it = [f"st.global.b{8 * size} [%p], %{name};"]
            (load if kind == "a" else store).extend(access + (load_it if kind == "a" else store_it))
    lines = [
        f".visible .entry k({', '.join(params)})\n{{",
        ".reg .u64 %p; .reg .u32 %i, %c, %n; .reg .pred %q<8>;",
        ".reg .b16 %h<8>; .reg .b32 %r<16>; .reg .b64 %l<8>;",
        *registers,
        declare,
        "mov.u32 %i, %tid.x; mov.u32 %c, %ctaid.x; mov.u32 %n, %ntid.x; mad.lo.u32 %i, %c, %n, %i;",
        *load,
        body,
        *store,
        "ret;\n}",
    ]
    return HEAD.format(target=target) + "\n".join(lines)


def run(body, *inputs, out, declare="", target="sm_80"):
    """Runs `body` for each element of the inputs; `out` names the types of the results, one or a tuple."""
    inputs = [np.ascontiguousarray(a) for a in inputs]
    count = len(inputs[0])
    kinds = out if isinstance(out, tuple) else (out,)
    outputs = [np.zeros(count, kind) for kind in kinds]
    block = next(n for n in (128, 96, 64, 33, 32, 16, 8, 4, 2, 1) if count % n == 0)
    text = kernel(body, inputs, outputs, declare, target)
    emulator.Module(text).launch("k", grid=count // block, block=block, args=[*inputs, *outputs])
    return outputs if isinstance(out, tuple) else outputs[0]


START = """
.visible .entry k(.param .u64 p_out, .param .u32 p_n)
{
  .reg .pred %p<8>; .reg .b32 %r<32>; .reg .b64 %rd<16>;
  ld.param.u64 %rd1, [p_out];
  ld.param.u32 %r1, [p_n];
  mov.u32 %r2, %tid.x;
  mov.u32 %r3, %ctaid.x;
  mov.u32 %r4, %ntid.x;
  mad.lo.u32 %r5, %r3, %r4, %r2;
  mad.wide.u32 %rd2, %r5, 4, %rd1;
"""


def launch_threads(body, count=64, block=64, n=0, before="", **options):
    """Runs a body with out[i] at %rd2, the thread's number in %r5, tid in %r2 and n in %r1."""
    out = np.zeros(count, np.uint32)
    report = module(before + START + body + "\n}").launch(
        "k", grid=count // block, block=block, args=[out, n], **options
    )
    return out, report
