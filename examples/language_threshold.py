"""Otsu's threshold of an image of uint8 in `weft.language`: a histogram, the best threshold, and a mask."""

import argparse

import numpy as np

import weft.language as w


@w.kernel(grid=lambda image: image.rows)
def histogram(image: w.In[w.Array[w.u8], "m n"], counts: w.Out[w.Array[w.u32], "256"]):
    """Adds the numbers of pixels of each brightness in a row."""
    own, row = w.shared(1, 256, w.u32), w.cta()
    with w.role():
        for i in w.range(w.thread(), 256, 128):
            own[i] = 0
        w.barrier()
        for i in w.range(0, image.columns, 512):
            pixels = w.load(image[row, i], 512).to(w.i32)
            # What is beyond the end of the row is -1, which no bin has.
            w.atomic_add(own[w.where(w.row(pixels) + i < image.columns, pixels, -1)], 1)
        w.barrier()
        for i in w.range(w.thread(), 256, 128):
            w.atomic_add(counts[i], own[i])


@w.kernel(threads=256)
def best(counts: w.In[w.Array[w.u32], "256"], level: w.Out[w.Array[w.u8], "1"]):
    """The brightness that separates pixels into two classes whose means differ most, as Otsu weighs it."""
    i = w.thread()
    count = counts[i].to(w.u64)
    below, total = w.cumsum(count), w.sum(count)
    brightness, whole = w.cumsum(count * i.to(w.u64)), w.sum(count * i.to(w.u64))
    # Integers below 2**53, so f64 has them exactly.
    difference = total.to(w.f64) * brightness.to(w.f64) - whole.to(w.f64) * below.to(w.f64)
    weight = below.to(w.f64) * (total - below).to(w.f64)
    variance = w.where(weight > 0.0, difference * difference / w.where(weight > 0.0, weight, 1.0), 0.0)
    first = w.min(w.where(variance == w.max(variance), i, 255))
    if i == 0:
        level[0] = first.to(w.u8)


@w.kernel(grid=lambda image: (w.ceil_div(image.columns, 512), image.rows))
def masked(
    image: w.In[w.Array[w.u8], "m n"],
    level: w.In[w.Array[w.u8], "1"],
    mask: w.Out[w.Array[w.u8], "m n"],
):
    """255 for pixels that are brighter than the threshold, otherwise 0."""
    column, row = w.cta(0) * 512, w.cta(1)
    with w.role():
        pixels = w.load(image[row, column], 512)
        w.store(w.where(pixels > level[0], w.u8(255), 0), mask[row, column])


def expected(image):
    """The threshold in NumPy."""
    counts = np.bincount(image.ravel(), minlength=256).astype(np.uint64)
    below, brightness = counts.cumsum(), (counts * np.arange(256, dtype=np.uint64)).cumsum()
    difference = below[-1].astype(float) * brightness - brightness[-1].astype(float) * below
    weight = below.astype(float) * (below[-1] - below)
    return np.divide(difference**2, weight, where=weight > 0, out=np.zeros(256)).argmax()


def main():
    """Separates a bright disk from its dark background, on the GPU or in the emulator."""
    rng, (y, x) = np.random.default_rng(0), np.mgrid[:150, :700]
    is_bright = (y - 70) ** 2 + (x - 300) ** 2 < 50**2
    image = np.clip(np.where(is_bright, 190, 60) + rng.normal(0, 15, is_bright.shape), 0, 255).astype(
        np.uint8
    )
    counts, level, mask = np.zeros(256, np.uint32), np.zeros(1, np.uint8), np.zeros_like(image)
    histogram(image, counts)
    best(counts, level)
    masked(image, level, mask)
    right = np.array_equal(counts, np.bincount(image.ravel(), minlength=256)) and level[0] == expected(image)
    right = right and np.array_equal(mask, np.where(image > level[0], 255, 0))
    print(f"threshold {level[0]}, {'equal to' if right else 'different from'} NumPy's")
    print(f"{np.mean((mask == 255) == is_bright):.2%} of the pixels are in their class")


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    main()
