"""The instructions that the emulator doesn't support, with the reasons."""

_TEXTURES = "textures and surfaces aren't emulated"
_COPIES = "bulk copies to multicast objects aren't emulated"

UNSUPPORTED = {
    **dict.fromkeys(("tex", "tld4", "txq", "suld", "sust", "sured", "suq", "istypep"), _TEXTURES),
    "multimem.cp": _COPIES,
    "clmad": "carry-less products aren't emulated",
    "setsmemsize": "shared memory that changes its size isn't emulated",
    "ld.async": "asynchronous loads aren't emulated",
    "fma.oob": "results for operands out of bounds aren't emulated",
    "shfl": "must have .sync from sm_70 on",
    "vote": "must have .sync from sm_70 on",
}
"""Instructions by their opcodes, or by an opcode and one of its modifiers."""


def reason(opcode: str) -> str | None:
    """The reason why an instruction isn't supported; None if it isn't listed."""
    first, *modifiers = opcode.split(".")
    if first in ("shfl", "vote") and "sync" in modifiers:
        return None
    reasons = (UNSUPPORTED.get(name) for name in (first, *(f"{first}.{modifier}" for modifier in modifiers)))
    return next((why for why in reasons if why is not None), None)
