"""A module and the pipeline to run on it in one text, as `mlir-opt --run-reproducer` reads it."""

import json
import re

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
    """The module and the pipeline of such a text; None for another."""
    if (match := _REPRODUCER.search(text)) is None:
        return None
    pipeline: str = json.loads(match[1])
    return text[: match.start()] + text[match.end() :], pipeline
