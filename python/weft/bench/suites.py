"""The shapes that `weft bench` measures: named suites, and shapes as they are written."""

from weft.errors import WeftError

Shape = tuple[int, int, int]

SUITES: dict[str, tuple[Shape, ...]] = {
    "square": tuple((size, size, size) for size in (512, 1024, 2048, 4096, 8192, 16384)),
    "llm": (
        (8192, 28672, 8192),
        (4096, 14336, 4096),
        (8192, 8192, 1024),
        (4096, 4096, 512),
        (512, 512, 32768),
        (2048, 7168, 2048),
        *(
            (rows, n, k)
            for n, k in ((8192, 8192), (7168, 16384), (4096, 14336))
            for rows in (1, 16, 64, 128, 256)
        ),
    ),
    "deepgemm": tuple(
        (rows, n, k)
        for n, k in ((2112, 7168), (24576, 1536), (32768, 512), (7168, 16384), (4096, 7168), (7168, 2048))
        for rows in (64, 128, 4096, 8192)
    ),
}


def shapes(text: str) -> tuple[Shape, ...]:
    """The shapes (M, N, K) of a suite's name, or of one `MxNxK`. Raises WeftError for any other text."""
    if text in SUITES:
        return SUITES[text]
    parts = text.lower().split("x")
    if len(parts) != 3 or not all(p.isascii() and p.isdigit() and 0 < int(p) < 2**31 for p in parts):
        raise WeftError(
            f"no suite and no shape '{text}': expects MxNxK, three sizes from 1 to 2**31 - 1 "
            f"(4096x4096x4096, say), or one of {', '.join(SUITES)}"
        )
    m, n, k = map(int, parts)
    return ((m, n, k),)
