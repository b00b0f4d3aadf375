"""Findings of the emulator's sanitizer as SARIF 2.1.0, which code hosts and editors show next to the code."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from weft.tools import cli

if TYPE_CHECKING:
    from weft.emulator import Finding

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def write(path: str, findings: "Sequence[Finding]", name: str) -> None:
    """Writes findings about the PTX file `name`. Raises WeftError where the file can't be written."""
    cli.write(path, json.dumps(document(findings, name), indent=2) + "\n")


def document(findings: "Sequence[Finding]", name: str) -> cli.Record:
    """One run of one tool, with its rules and a result for each finding."""
    from weft.emulator.sanitizer import RULES

    rules = [{"id": rule, "shortDescription": {"text": text}} for rule, text in RULES.items()]
    driver = {"name": "weft emulate", "rules": rules}
    results = [_result(finding, name) for finding in findings]
    return {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }


def _result(finding: "Finding", name: str) -> cli.Record:
    """A finding at its source line, where the PTX names one, with the PTX line as a related location."""
    ptx = _location(name, finding.line)
    file, _, line = finding.source.rpartition(":")
    facts = {"count": finding.count, "thread": finding.thread and str(finding.thread)}
    facts |= {"address": finding.address, "seed": finding.seed}
    return {
        "ruleId": finding.rule,
        "level": "error",
        "message": {"text": finding.message},
        "locations": [_location(file, int(line)) if file else ptx],
        **({"relatedLocations": [ptx]} if file else {}),
        "properties": {key: value for key, value in facts.items() if value is not None},
    }


def _location(file: str, line: int) -> cli.Record:
    path = Path(file)
    uri = path.as_uri() if path.is_absolute() else quote(path.as_posix())
    physical: cli.Record = {"artifactLocation": {"uri": uri}}
    if line:
        physical["region"] = {"startLine": line}
    return {"physicalLocation": physical}
