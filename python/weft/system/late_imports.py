"""Attributes of a package that are imported at first use."""

import sys
from importlib import import_module
from typing import Any


def attribute(package: str, name: str, module: str | None) -> Any:
    """An attribute of a package by its name, from the package's `module`. Raises AttributeError for None."""
    if module is None:
        # From `name` and `obj`, Python suggests similar attributes.
        raise AttributeError(
            f"module '{package}' has no attribute '{name}'", name=name, obj=sys.modules[package]
        )
    return getattr(import_module(f"{package}.{module}"), name)
