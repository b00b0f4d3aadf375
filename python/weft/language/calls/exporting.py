"""`kernel.show` and `kernel.export`: a compiled kernel as text, and as files for launches without Weft."""

import json
import os
from pathlib import Path

from weft.errors import WeftError, shown
from weft.isa.suggest import did_you_mean
from weft.launch.kernel import Kernel
from weft.system import output_files

_TEXTS = ("llvm", "ptx", "sass")


def text(kernel: Kernel, stage: object) -> str:
    """The IR after a pass, or the LLVM IR, PTX or SASS. Raises WeftError for another stage."""
    names = ("source", *dict.fromkeys(kernel.stages), *_TEXTS)
    if not isinstance(stage, str) or stage not in names:
        meant = did_you_mean(stage, names) if isinstance(stage, str) else ""
        raise WeftError(f"stage must be one of {', '.join(names)}, got {stage!r}{meant}")
    return str(getattr(kernel, stage)) if stage in _TEXTS else kernel.ir(stage)


def export(kernel: Kernel, path: object) -> list[Path]:
    """Writes `path`.cubin, .ptx and .json, all or none of them, and returns their paths."""
    if not isinstance(path, (str, os.PathLike)) or not (base := Path(path)).name:
        raise WeftError(f"path must be the files' path without a suffix, got {shown(path)}")
    if not base.parent.is_dir():
        raise WeftError(f"path: {base.parent} must be a directory")
    described = {"name": kernel.name, "chip": kernel.chip, **kernel.launch.description()}
    contents = {
        "cubin": kernel.cubin,
        "ptx": kernel.ptx.encode(),
        "json": (json.dumps(described, indent=2) + "\n").encode(),
    }
    files = {base.with_name(f"{base.name}.{suffix}"): data for suffix, data in contents.items()}
    try:
        output_files.write_all(files)
    except OSError as error:
        raise WeftError(f"cannot write '{error.filename}': {error.strerror or error}") from None
    return [*files]
