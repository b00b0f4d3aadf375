"""Kernels of `weft.language` with a mistake, as text under the message that each of them raises."""

import textwrap

import pytest

import weft
import weft.language as w


def cases(text, parameters='x: w.In["m n", w.f32], y: w.Out["m n", w.f32]'):
    """The cases of a test. An empty line separates them. Each has a comment, a regular expression of the
    message, and the body of a kernel with these parameters, or a function `kernel` with others.
    """
    made = []
    for case in text.strip().split("\n\n"):
        message, code = case.removeprefix("# ").split("\n", 1)
        if not code.startswith("def kernel("):
            code = f"def kernel({parameters}):\n{textwrap.indent(code, '    ')}"
        made.append(pytest.param(code, message, id=code.splitlines()[_line(code) - 1].strip()))
    return made


def _line(code):
    """The number of the line with the mistake: the one that ends with `# here`, otherwise the last."""
    lines = code.splitlines()
    return next((n for n, line in enumerate(lines, 1) if line.endswith("# here")), len(lines))


def refused(folder, code, message, names, arch=None, **options):
    """Where compiling a kernel is refused with this message, which must be in the line of the mistake."""
    with pytest.raises(weft.WeftError, match=message) as raised:
        compiled(folder, code, names, arch, **options)
    where = raised.value.diagnostics[0].location
    assert (where.file, where.line) == (str(folder / "mistake.py"), _line(code))
    return where


def compiled(folder, code, names, arch=None, **options):
    """Compiles the kernel of a file, with these options of `w.kernel`."""
    file = folder / "mistake.py"
    file.write_text(code)
    scope = dict(names)
    exec(compile(code, file, "exec"), scope)
    return w.kernel(**options)(scope["kernel"]).compile(arch=arch)
