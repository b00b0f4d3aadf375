"""The order in which CTAs compute the tiles of causal attention. Tiles of queries need more keys the later
they are, tiles of keys fewer queries.
"""

import weft.language as w

ROUNDS = 3  # of tiles of all CTAs, in each of which the tiles become shorter or longer


def by_length(number, counts):
    """The tile of queries, head and sequence with this number. A CTA computes every n-th tile, where n is the
    number of CTAs.

    Sections of heads follow each other, so that L2 keeps their keys and values. In one section the tiles of
    all heads become longer, in the next one shorter: tiles that are computed together are almost equal, and a
    CTA with longer tiles in one section has shorter ones in the other. The last tiles are the shortest.
    """
    tiles, heads, batches = counts
    all_heads = heads * batches
    least = w.ceil_div(ROUNDS * w.ctas(), tiles)
    size = w.ceil_div(all_heads, 2 * w.ceil_div(all_heads, 2 * least))
    section = number // (size * tiles)
    first = section * size
    rest = number - first * tiles
    width = w.minimum(size, all_heads - first)
    step = rest // width
    head = first + rest - step * width
    falls = (w.ceil_div(all_heads, size) - section) % 2 == 1
    batch = head // heads
    return w.where(falls, tiles - 1 - step, step), head - batch * heads, batch


def longest_first(counts, section):
    """The tile of keys, head and sequence of a CTA, for a grid of `counts`. The hardware starts CTAs in the
    order of their numbers.

    Sections of heads follow each other, with `section` tiles each, so that L2 keeps their queries. In a
    section the first tiles of all heads come first, which are the longest: the last tiles of a launch are
    short, and end at about the same time.
    """
    tiles, heads, batches = counts
    number = w.cta(0) + tiles * (w.cta(1) + heads * w.cta(2))
    size = w.maximum(section // tiles, 1)
    first = number // (size * tiles) * size
    rest, width = number - first * tiles, w.minimum(size, heads * batches - first)
    head = first + rest % width
    return rest // width, head % heads, head // heads
