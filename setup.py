"""What pyproject.toml doesn't do: compiles the host code where there is a C compiler, and lays the package
out as one folder for `pip install -e .`.

With `weft.dialects` mapped to `dialects`, setuptools would find the package by an import hook, which mypy and
pyright don't run. With links `python/weft/dialects -> ../../dialects` a .pth file suffices, which they read.
"""

import zlib
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.editable_wheel import editable_wheel

_SOURCE = "python"


class LinkedEditableWheel(editable_wheel):
    """An editable install of a folder that holds every package, mapped ones by links."""

    def finalize_options(self) -> None:
        """Makes the links, and the folder the package's place; without links the import hook remains."""
        packages = self.distribution.package_dir or {}
        if _linked({name: folder for name, folder in packages.items() if "." in name}):
            self.distribution.package_dir = {"": _SOURCE}
            self.distribution.get_command_obj("egg_info").egg_base = "."
        super().finalize_options()


def _linked(mapped: dict[str, str]) -> bool:
    """Makes a link for each mapped package; False where the file system has no links or can't be written."""
    root = Path(__file__).resolve().parent
    for name, folder in mapped.items():
        link = root / _SOURCE / name.replace(".", "/")
        if link.is_symlink() and link.resolve() == root / folder:
            continue
        try:
            link.unlink(missing_ok=True)
            link.symlink_to(Path(*[".."] * (len(link.relative_to(root).parts) - 1), folder))
        except OSError:
            return False
    return True


_HOST = "python/weft/launch/host.c"
_DIGEST = zlib.crc32(Path(_HOST).read_bytes())
_COMPILED = Extension(
    "weft.launch.compiled",
    [_HOST],
    define_macros=[("SOURCE", f"{_DIGEST}u")],
    py_limited_api=True,
    optional=True,
)
setup(
    ext_modules=[_COMPILED],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
    cmdclass={"editable_wheel": LinkedEditableWheel},
)
