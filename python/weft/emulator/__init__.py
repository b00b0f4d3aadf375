"""A CPU emulator of NVIDIA GPUs that executes PTX text.

module = Module(ptx_text)
report = module.launch("kernel", grid=(4, 1, 1), block=(128, 1, 1), args=[array, 3, 1.5])
"""

from weft.emulator.arguments import Multicast, Named, Progress, Struct, Unwritten, limits
from weft.emulator.errors import Deadlock, Fault, PtxError, Thread, TimeLimit
from weft.emulator.explore import Exploration, explore
from weft.emulator.launch import Module, Report
from weft.emulator.memory.tensor_map import TensorMap
from weft.emulator.sanitizer import Finding
from weft.emulator.watching.hooks import Hook, Hooks, hooked
from weft.emulator.watching.stopped import Launched, MemoryEvent, Stopped
from weft.emulator.world import Event, Stream, World, WorldReport

__all__ = [
    "Deadlock",
    "Event",
    "Exploration",
    "Fault",
    "Finding",
    "Hook",
    "Hooks",
    "Launched",
    "MemoryEvent",
    "Module",
    "Multicast",
    "Named",
    "Progress",
    "PtxError",
    "Report",
    "Stopped",
    "Stream",
    "Struct",
    "TensorMap",
    "Thread",
    "TimeLimit",
    "Unwritten",
    "World",
    "WorldReport",
    "explore",
    "hooked",
    "limits",
]
