"""Times attention of one query, by variants of `weft.attend.kernels.decode` with splits and of `combine`, in
turns, beside a copy of keys and values.

    python benchmarks/attention/decode_tiles.py --d 64 128 --keys 8192 --variant stages=4 --variant splits=4

There are 4 sequences of 32 heads and 4 heads of keys, in bf16. Prints a line of JSON for each shape:
microseconds of all, and for each variant also those of its two kernels alone.
"""

import json
import sys
from typing import Any

import torch
from forward_tiles import meta_of
from operators import arrays, timed

import weft
from weft.attend import tiles
from weft.attend.kernels.combine import combine
from weft.attend.kernels.decode import decode
from weft.bench import scripts

BATCH, HEADS, KEY_HEADS = 4, 32, 4


def main() -> None:
    parser = scripts.parser(__doc__)
    parser.add_argument("--d", type=int, nargs="*", default=[64, 128])
    parser.add_argument("--keys", type=int, nargs="*", default=[8192])
    parser.add_argument("--variant", action="append", default=[], help="such as splits=4,stages=3")
    options = scripts.parsed(parser)
    for d in options.d:
        for keys in options.keys:
            print(json.dumps(measured(d, keys, options.variant)), flush=True)


def measured(d: int, keys: int, variants: list[str]) -> dict[str, Any]:
    """Microseconds of every variant of one shape, and the largest error of each."""
    shapes = [(BATCH, HEADS, 1, d), (BATCH, KEY_HEADS, keys, d), (BATCH, KEY_HEADS, keys, d)]
    sets = arrays(shapes, False)
    calls: dict[str, Any] = {"weft": lambda number: weft.attention(*sets[number])}
    wanted = weft.attention(*sets[0]).float()
    found: dict[str, Any] = {"d": d, "keys": keys}
    for text in variants:
        try:
            both, o = prepared(sets, meta_of(text))
        except weft.WeftError as error:
            found[text] = str(error).splitlines()[0][:160]
            continue
        calls[text] = lambda number, both=both: [each() for each in both[number]]
        for which, name in enumerate(("decode", "combine")):
            if len(both[0]) > which:
                calls[f"{text} {name}"] = lambda number, both=both, which=which: both[number][which]()
        for each in both[0]:
            each()
        torch.cuda.synchronize()
        found[f"error {text}"] = float((o.reshape(wanted.shape).float() - wanted).abs().max())
    calls["copy"] = lambda number: [each.clone() for each in sets[number][1:]]
    with torch.no_grad():
        times = timed(calls, True)
    return found | {name: t if isinstance(t, str) else round(t * 1e3, 2) for name, t in times.items()}


def prepared(sets: list[Any], meta: dict[str, Any]) -> tuple[list[list[Any]], torch.Tensor]:
    """The launches for each set of arrays, as calls, and the output of the first."""
    (q, _, _), splits = sets[0], meta.pop("splits", 8)
    d, group = q.shape[-1], HEADS // KEY_HEADS
    chosen = tiles.decode(d, d, group, ahead=splits > 1) | meta
    options: dict[str, Any] = {"device": "cuda"}
    parts = torch.zeros(splits * BATCH, KEY_HEADS, group, d, **options)
    sums = torch.zeros(splits * BATCH, KEY_HEADS, group, **options)
    none = torch.zeros(1, dtype=torch.int32, **options)
    made, outputs = [], []
    for q, k, v in sets:
        rows = q.view(BATCH, KEY_HEADS, group, d)
        o, lse = torch.zeros_like(rows), torch.zeros(BATCH, KEY_HEADS, group, **options)
        to, of_sums = (parts, sums) if splits > 1 else (o, lse)
        launches = [
            decode.prepare(
                *(rows, k, v, none, none[None], none.float(), to, of_sums),
                *(d**-0.5, 0.0, 0, 0),
                **chosen,
                splits=splits,
            )
        ]
        if splits > 1:
            launches.append(combine.prepare(parts, sums, none.float(), o, lse, splits=splits, grouped=True))
        kept = rows, none, o, lse, parts, sums
        made.append([_queued(each, kept) for each in launches])
        outputs.append(o)
    return made, outputs[0]


def _queued(launch: Any, kept: Any) -> Any:
    return lambda kept=kept: launch.launch(torch.cuda.current_stream().cuda_stream)


if __name__ == "__main__":
    sys.exit(main())
