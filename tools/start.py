"""The programs `weft` and `weft-opt`, which Ctrl-C ends without a traceback during their imports, too."""

import signal
from importlib import import_module


def weft() -> int:
    """`weft` with the process's arguments; returns its exit status."""
    return _run("weft.tools.weft")


def weft_opt() -> int:
    """`weft-opt` with the process's arguments; returns its exit status."""
    return _run("weft.tools.weft_opt")


def _run(name: str) -> int:
    raises = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if raises:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    main = import_module(name).main
    if raises:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    status: int = main()
    return status
