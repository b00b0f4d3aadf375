"""How CTAs that multiply K slices of the same tile divide its columns, to add up their sums."""

_ROUND = 8  # columns of vectors that take as long to add up as the latency of a piece


def added_pieces(across: int, vectors: int, slices: int, most: int) -> tuple[int, int]:
    """The columns of vectors in a piece, and how many CTAs add up pieces: they deal those of a tile among
    themselves. A thread holds `vectors` vectors of four sums in `across` columns, and loads at most `most`
    sums of all `slices` at once. A CTA adds up one piece after the other, so it gets few large ones.
    """
    each = 4 * vectors // across
    able = [w for w in range(1, across + 1) if across % w == 0 and (w == 1 or w * each * slices <= most)]
    width = min(able, key=lambda w: -(-across // (w * slices)) * (_ROUND + w))
    return width, min(slices, across // width)
