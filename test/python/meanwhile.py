"""What another thread does while Python runs code that looks as if nothing could come in between."""

import contextlib
import gc
import itertools


@contextlib.contextmanager
def growing(names, value):
    """Python may collect garbage in any allocation, and switch threads then: another thread adds to `names`
    each time.
    """
    numbers, before, thresholds = itertools.count(), set(names), gc.get_threshold()

    def grow(*_):
        names[f"meanwhile_{next(numbers)}"] = value

    gc.callbacks.append(grow)
    gc.set_threshold(1)
    try:
        yield
        assert set(names) > before
    finally:
        gc.set_threshold(*thresholds)
        gc.callbacks.remove(grow)
        for name in set(names) - before:
            del names[name]
