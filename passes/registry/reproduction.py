"""A module and the pipeline to run on it in one text, as `mlir-opt --run-reproducer` reads it."""

import json
import re

from weft.errors import WeftError

_REPRODUCTION = """\
{module}
{{-#
  external_resources: {{
    mlir_reproducer: {{
      pipeline: {pipeline},
      disable_threading: true,
      verify_each: {verifies}
    }}
  }}
#-}}
"""
_REPRODUCER = re.compile(
    r"\{-#\s*external_resources:\s*\{\s*mlir_reproducer:\s*\{\s*pipeline:\s*(\"(?:[^\"\\]|\\.)*\").*?#-\}",
    re.DOTALL,
)


def reproduction(module: str, pipeline: str, verifies: bool) -> str:
    """The text of a module and a pipeline; `verifies`: the module is verified after each pass."""
    text = json.dumps(f"builtin.module({pipeline})", ensure_ascii=False)
    return _REPRODUCTION.format(module=module.rstrip("\n"), pipeline=text, verifies=str(verifies).lower())


def reproduced(text: str) -> tuple[str, str] | None:
    """The module and the pipeline of such a text; None for another. Raises WeftError for an escape that MLIR
    doesn't have.
    """
    if (match := _REPRODUCER.search(text)) is None:
        return None
    pipeline = _ESCAPED.sub(_character, match[1][1:-1])
    return text[: match.start()] + text[match.end() :], pipeline


_ESCAPED = re.compile(r"\\([0-9A-Fa-f]{2}|.)", re.DOTALL)
_CHARACTERS = {"n": "\n", "t": "\t", '"': '"', "\\": "\\"}


def _character(escape: re.Match[str]) -> str:
    """The character that an escape in a string of MLIR stands for."""
    text = escape[1]
    if len(text) == 2:
        return chr(int(text, 16))
    if text not in _CHARACTERS:
        legal = '\\n, \\t, \\", \\\\ or two hexadecimal digits'
        raise WeftError(f"mlir_reproducer: an escape in the pipeline must be {legal}; got '{escape[0]}'")
    return _CHARACTERS[text]
