"""The driver's description of a launch: grid, block, shared memory and attributes."""

from typing import Any

from weft.launch.cuda_driver import api

Dim = tuple[int, int, int]


def launch_config(grid: Dim, block: Dim, shared_bytes: int, cluster: Dim, dependent: bool) -> Any:
    """The CUlaunchConfig of a launch. A cluster of (1, 1, 1) leaves the cluster to the kernel."""
    driver = api()
    config = driver.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = grid
    config.blockDimX, config.blockDimY, config.blockDimZ = block
    config.sharedMemBytes = shared_bytes
    attributes = []
    if cluster != (1, 1, 1):
        attribute = driver.CUlaunchAttribute()
        attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        dim = attribute.value.clusterDim
        dim.x, dim.y, dim.z = cluster
        attributes.append(attribute)
    if dependent:
        attribute = driver.CUlaunchAttribute()
        attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
        attribute.value.programmaticStreamSerializationAllowed = 1
        attributes.append(attribute)
    if attributes:
        config.attrs = attributes
        config.numAttrs = len(attributes)
    return config
