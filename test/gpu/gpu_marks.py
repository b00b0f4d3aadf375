"""Marks for tests that need a GPU, or one with wgmma."""

import pytest

from weft.launch import runtime

_reason = runtime.available()
_chip = "" if _reason is not None else runtime.current().chip

WGMMA = pytest.mark.skipif(_reason is None and _chip != "sm_90a", reason=f"wgmma is sm_90a's, not {_chip}'s")
GPU = [pytest.mark.gpu, pytest.mark.skipif(_reason is not None, reason=str(_reason))]
SM_90A = [*GPU, WGMMA]
