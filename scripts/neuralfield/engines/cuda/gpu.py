"""What the current card is and has."""

from neuralfield.system.device import Device


def compute_capability(device: Device) -> int:
    """Of the current card; 90 is 9.0."""
    return int(device.xp.cuda.Device().compute_capability)


def card_limits(device: Device) -> tuple[int, int]:
    """The current card's multiprocessors, and the bytes of shared memory that a block may have."""
    properties = device.xp.cuda.runtime.getDeviceProperties(device.xp.cuda.Device().id)
    return int(properties["multiProcessorCount"]), int(properties["sharedMemPerBlockOptin"])
