"""Makes each Python process of a command look as if it ran on macOS or Windows.

What the other system lacks is removed, so that its use raises. Libraries keep what they have found at import.
"""

import builtins
import os
import sys
import types

SYSTEM = os.environ["WEFT_TEST_SYSTEM"]
NOT_ON_MACOS = {
    "os": "memfd_create sched_getaffinity sched_setaffinity pidfd_open fork forkpty",  # it has unsafe forks
    "signal": "sigtimedwait sigwaitinfo",
    "socket": "MSG_NOSIGNAL SOCK_CLOEXEC SOCK_NONBLOCK",
}
NOT_ON_WINDOWS = {
    "os": NOT_ON_MACOS["os"] + " register_at_fork killpg getpgid setsid geteuid getuid pread sysconf"
    " sysconf_names uname O_NONBLOCK O_NOFOLLOW O_CLOEXEC mkfifo",
    "signal": NOT_ON_MACOS["signal"] + " SIGKILL SIGHUP SIGALRM SIGCHLD SIGBUS SIGXCPU SIGXFSZ SIGTRAP alarm"
    " pthread_sigmask SIG_BLOCK SIG_UNBLOCK",
    "socket": NOT_ON_MACOS["socket"] + " AF_UNIX",
}
# Libraries, and modules of Python that have another implementation on Windows.
FIRST = (
    "cuda.pathfinder concurrent.futures ctypes llvmlite.binding multiprocessing.connection numpy platform "
    "platformdirs rich.console shutil socket subprocess tempfile"
)


def remove() -> None:
    """Takes away what the system lacks."""
    import ctypes
    import subprocess

    class Library(ctypes.CDLL):
        def __getattr__(self, name: str) -> object:
            if name == "prctl":
                raise AttributeError(name)
            return super().__getattr__(name)

    for module, names in (NOT_ON_WINDOWS if SYSTEM == "win32" else NOT_ON_MACOS).items():
        for name in names.split():
            delattr(__import__(module), name)
    ctypes.CDLL = Library
    if SYSTEM == "win32":
        import fcntl

        locks = fcntl
        sys.modules["msvcrt"] = msvcrt = types.ModuleType("msvcrt")
        msvcrt.LK_NBLCK = 2
        msvcrt.locking = lambda file, mode, size: locks.lockf(file, locks.LOCK_EX | locks.LOCK_NB, size)
        for name in ("fcntl", "resource", "pwd", "grp"):
            sys.modules[name] = None
        subprocess.Popen.kill = lambda process: process.send_signal(9)
        os.supports_fd = frozenset()
        ctypes.windll = types.SimpleNamespace(
            kernel32=types.SimpleNamespace(OpenProcess=opened, WaitForSingleObject=wait)
        )
    sys.platform = SYSTEM


def opened(access: int, inherits: bool, process: int) -> int:
    return process


def wait(process: int, time: int) -> int:
    from time import sleep

    while os.getppid() == process:
        sleep(0.1)
    return 0


plain_import = builtins.__import__


def importing(name: str, *rest: object, **options: object) -> object:
    if name.partition(".")[0] == "weft" and builtins.__import__ is importing:
        builtins.__import__ = plain_import
        for each in FIRST.split():
            plain_import(each)
        plain_import("sysconfig").get_config_vars()  # from files whose names contain the system
        remove()
    return plain_import(name, *rest, **options)


builtins.__import__ = importing
