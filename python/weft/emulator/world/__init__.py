"""Several GPUs at once: streams of kernels, copies and flags, and memory that all GPUs can access."""

from weft.emulator.world.operations import Event
from weft.emulator.world.streams import Stream
from weft.emulator.world.worlds import World, WorldReport

__all__ = ["Event", "Stream", "World", "WorldReport"]
