"""Pausing of trainings while the GPU is too hot."""

import time
from collections.abc import Callable

from neuralfield.system.device import Device
from neuralfield.system.interruption import StopSignals

HYSTERESIS_CELSIUS = 5.0
"""Difference from the limit at which a paused training continues, in degrees Celsius; without it,
the training would pause again immediately."""

_SECONDS_BETWEEN_READINGS = 2.0
_SECONDS_BETWEEN_LOOKS = 0.2
"""Time between two checks for signals during a pause."""


class SensorError(Exception):
    """A temperature cannot be read."""


Sensor = Callable[[], float]
"""A function that returns a temperature in degrees Celsius; raises `SensorError`."""


def gpu_sensor(device: Device) -> Sensor:
    """Return the sensor of the NVIDIA GPU that CuPy uses; raises `SensorError` if there is none."""
    try:
        import pynvml as nvml
    except ImportError as error:
        raise SensorError("the package nvidia-ml-py is not installed") from error

    def read_celsius() -> float:
        try:
            return float(nvml.nvmlDeviceGetTemperature(gpu, nvml.NVML_TEMPERATURE_GPU))
        except nvml.NVMLError as error:
            raise SensorError(f"NVML: {error}") from error

    runtime = device.xp.cuda.runtime
    try:
        nvml.nvmlInit()
        # CUDA numbers only visible GPUs, but NVML numbers all; both have the same bus address
        gpu = nvml.nvmlDeviceGetHandleByPciBusId(runtime.deviceGetPCIBusId(runtime.getDevice()))
    except nvml.NVMLError as error:
        raise SensorError(f"NVML: {error}") from error
    read_celsius()
    return read_celsius


class HeatGuard:
    """Guard that pauses a training above `max_celsius`, until `HYSTERESIS_CELSIUS` below it."""

    def __init__(self, sensor: Sensor, max_celsius: float, say: Callable[[str], None]) -> None:
        self._sensor: Sensor | None = sensor
        self.max_celsius, self.say = max_celsius, say
        self._next_reading_s = 0.0
        self._celsius = 0.0

    def is_too_hot(self) -> bool:
        """Check whether to pause; the sensor is read at most every two seconds."""
        if self._sensor and time.monotonic() >= self._next_reading_s:
            self._read(self._sensor)
            return self._celsius > self.max_celsius
        return False

    def wait_until_cool(self, stop: StopSignals) -> None:
        """Wait until the device is cool enough or a stop is requested."""
        goes_on_celsius = self.max_celsius - HYSTERESIS_CELSIUS
        self.say(
            f"paused: the GPU has {self._celsius:.0f} °C, training.max_temperature_celsius is"
            f" {self.max_celsius:g} °C; training resumes at {goes_on_celsius:g} °C"
        )
        started_s = time.monotonic()
        while self._sensor and self._celsius > goes_on_celsius and not stop.received:
            time.sleep(_SECONDS_BETWEEN_LOOKS)
            if time.monotonic() >= self._next_reading_s:
                self._read(self._sensor)
        if self._sensor and not stop.received:
            waited_s = time.monotonic() - started_s
            self.say(f"resumed at {self._celsius:.0f} °C, after a pause of {waited_s:.0f} s")

    def _read(self, sensor: Sensor) -> None:
        try:
            self._celsius = sensor()
        except SensorError as error:
            self.say(_unwatched(error))
            self._sensor, self._celsius = None, 0.0
        self._next_reading_s = time.monotonic() + _SECONDS_BETWEEN_READINGS


def guard_gpu(
    max_celsius: float | None, device: Device, say: Callable[[str], None]
) -> HeatGuard | None:
    """Return a `HeatGuard`; None if there is no limit or the temperature cannot be read."""
    if max_celsius is None:
        return None
    try:
        if device.kind != "gpu":
            raise SensorError(f"{device.name} is not an NVIDIA GPU")
        return HeatGuard(gpu_sensor(device), max_celsius, say)
    except SensorError as error:
        say(_unwatched(error))
        return None


def _unwatched(error: SensorError) -> str:
    return (
        f"training.max_temperature_celsius: the temperature cannot be read ({error});"
        " training continues without monitoring it"
    )
