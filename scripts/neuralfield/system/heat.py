"""A card that gets too hot: the training waits until it is cooler."""

import time
from collections.abc import Callable
from typing import Protocol

from neuralfield.system.device import Device
from neuralfield.system.interruption import StopSignals

HYSTERESIS_CELSIUS = 5.0
"""So much below the limit a paused training goes on, or it would pause again at once."""

_SECONDS_BETWEEN_READINGS = 2.0
_SECONDS_BETWEEN_LOOKS = 0.2
"""For signals, while paused."""


class SensorError(Exception):
    """A temperature cannot be read."""


class Sensor(Protocol):
    """Something that knows how hot the device is."""

    def read_celsius(self) -> float:
        """The temperature now.

        Raises
        ------
        SensorError
        """
        ...


class CardSensor:
    """The temperature of the NVIDIA card that a device computes on.

    Parameters
    ----------
    device : Device
        A GPU; of several cards the one that CuPy works on, whatever CUDA_VISIBLE_DEVICES hides.

    Raises
    ------
    SensorError
        No package nvidia-ml-py, no driver, no permission, or no sensor.
    """

    def __init__(self, device: Device) -> None:
        try:
            import pynvml
        except ImportError as error:
            raise SensorError("the package nvidia-ml-py is not installed") from error
        runtime = device.xp.cuda.runtime
        self._nvml = pynvml
        try:
            pynvml.nvmlInit()
            # CUDA counts the cards it is shown, NVML all there are: the bus tells which is which
            bus = runtime.deviceGetPCIBusId(runtime.getDevice())
            self._card = pynvml.nvmlDeviceGetHandleByPciBusId(bus)
        except pynvml.NVMLError as error:
            raise SensorError(f"NVML: {error}") from error
        self.read_celsius()

    def read_celsius(self) -> float:
        """The temperature of the chip now, in whole degrees."""
        nvml = self._nvml
        try:
            return float(nvml.nvmlDeviceGetTemperature(self._card, nvml.NVML_TEMPERATURE_GPU))
        except nvml.NVMLError as error:
            raise SensorError(f"NVML: {error}") from error


class HeatGuard:
    """Says when to pause, and waits until it is cool enough to go on.

    Parameters
    ----------
    sensor : Sensor
    max_celsius : float
        Above it the training pauses; `HYSTERESIS_CELSIUS` below it, it goes on.
    say : callable
        Told, in a line, whatever a user should know.
    """

    def __init__(self, sensor: Sensor, max_celsius: float, say: Callable[[str], None]) -> None:
        self._sensor: Sensor | None = sensor
        self.max_celsius, self.say = max_celsius, say
        self._next_reading_s = 0.0
        self._celsius = 0.0

    def is_too_hot(self) -> bool:
        """Whether to pause; looks at the sensor every two seconds at most."""
        if self._sensor and time.monotonic() >= self._next_reading_s:
            self._read(self._sensor)
            return self._celsius > self.max_celsius
        return False

    def wait_until_cool(self, stop: StopSignals) -> None:
        """Come back when it is cooler, or when somebody asks to stop."""
        goes_on_celsius = self.max_celsius - HYSTERESIS_CELSIUS
        self.say(
            f"paused: the card has {self._celsius:.0f} °C, above the {self.max_celsius:g} °C of"
            f" training.max_temperature_celsius; going on at {goes_on_celsius:g} °C"
        )
        started_s = time.monotonic()
        while self._sensor and self._celsius > goes_on_celsius and not stop.received:
            time.sleep(_SECONDS_BETWEEN_LOOKS)
            if time.monotonic() >= self._next_reading_s:
                self._read(self._sensor)
        if self._sensor and not stop.received:
            waited_s = time.monotonic() - started_s
            self.say(f"going on at {self._celsius:.0f} °C, after {waited_s:.0f} s of pause")

    def _read(self, sensor: Sensor) -> None:
        try:
            self._celsius = sensor.read_celsius()
        except SensorError as error:
            self.say(_unwatched(error))
            self._sensor, self._celsius = None, 0.0
        self._next_reading_s = time.monotonic() + _SECONDS_BETWEEN_READINGS


def guard_card(
    max_celsius: float | None, device: Device, say: Callable[[str], None]
) -> HeatGuard | None:
    """What watches the device's temperature, if it is to be watched and can be.

    Parameters
    ----------
    max_celsius : float, optional
        None: it is not watched.
    device : Device
    say : callable
        Told, in a line, why it cannot be watched.
    """
    if max_celsius is None:
        return None
    try:
        if device.kind != "gpu":
            raise SensorError(f"{device.name} is no NVIDIA card")
        return HeatGuard(CardSensor(device), max_celsius, say)
    except SensorError as error:
        say(_unwatched(error))
        return None


def _unwatched(error: SensorError) -> str:
    return (
        f"training.max_temperature_celsius: the temperature cannot be read ({error});"
        " training goes on without watching it"
    )
