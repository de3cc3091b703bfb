"""A GPU that is too hot pauses a training, and changes nothing else."""

import signal
import time

import pandas as pd
import pytest
from test_fit import CPU, make_task, sha256, train

from neuralfield.system import heat
from neuralfield.system.device import Device
from neuralfield.system.heat import HeatGuard, SensorError, guard_gpu
from neuralfield.system.interruption import Interrupted, StopSignals


class ScriptedSensor:
    """A sensor that returns the given readings in turn, and then repeats the last one."""

    def __init__(self, *readings):
        self.readings, self.count = list(readings), 0

    def __call__(self):
        reading = self.readings[min(self.count, len(self.readings) - 1)]
        self.count += 1
        if isinstance(reading, Exception):
            raise reading
        return reading


@pytest.fixture
def quick(monkeypatch):
    """Remove the delays between readings and between checks."""
    monkeypatch.setattr(heat, "_SECONDS_BETWEEN_READINGS", 0)
    monkeypatch.setattr(heat, "_SECONDS_BETWEEN_LOOKS", 0)


def test_it_pauses_above_and_goes_on_well_below(quick):
    messages = []
    sensor = ScriptedSensor(79, 80, 81, 80, 76, 75, 80)
    guard = HeatGuard(sensor, 80, messages.append)
    assert [guard.is_too_hot() for _ in range(3)] == [False, False, True]
    guard.wait_until_cool(StopSignals())
    assert sensor.count == 6, "76 is not yet 5 degrees cooler"
    assert not guard.is_too_hot()
    assert [line.split(";")[0] for line in messages] == [
        "paused: the GPU has 81 °C, training.max_temperature_celsius is 80 °C",
        "resumed at 75 °C, after a pause of 0 s",
    ]


def test_a_hot_training_ends_with_the_same_bytes_and_does_not_count_its_pauses(
    tmp_path, quick, monkeypatch
):
    task, messages = make_task(), []
    train(task, tmp_path / "cool")
    sensor = ScriptedSensor(50, 50, 90, 88, *[79] * 20, 70, 60, 90, *[79] * 20, 75, 60)
    monkeypatch.setattr(heat, "_SECONDS_BETWEEN_LOOKS", 0.02)
    started_s = time.monotonic()
    train(task, tmp_path / "hot", heat=HeatGuard(sensor, 80, messages.append))
    took_s = time.monotonic() - started_s
    assert [line.split()[0] for line in messages] == ["paused:", "resumed", "paused:", "resumed"]
    seconds = pd.read_csv(tmp_path / "hot/history.csv").seconds.iloc[-1]
    assert seconds < took_s - 41 * 0.02, "readings while it paused"
    assert sha256(tmp_path / "hot/model.safetensors") == sha256(tmp_path / "cool/model.safetensors")


def test_a_signal_is_answered_during_a_pause_and_the_state_is_saved(tmp_path):
    task, messages = make_task(), []

    def pause(message):
        messages.append(message)
        signal.raise_signal(signal.SIGTERM)

    with pytest.raises(Interrupted, match="SIGTERM: saved after step 1;"):
        train(task, tmp_path, heat=HeatGuard(ScriptedSensor(90), 80, pause))
    assert len(messages) == 1 and messages[0].startswith("paused: the GPU has 90 °C")
    messages = train(task, tmp_path)
    assert messages == ["resuming from the state saved after step 1"]


def test_a_sensor_that_fails_is_reported_once_and_does_not_stop_the_training(tmp_path, quick):
    messages = []
    guard = HeatGuard(ScriptedSensor(50, 90, SensorError("NVML: GPU is lost")), 80, messages.append)
    train(make_task(), tmp_path, heat=guard)
    assert len(messages) == 2 and messages[0].startswith("paused:")
    assert "cannot be read (NVML: GPU is lost)" in messages[1]


class NoRuntime:
    """A stand-in for CuPy's view of a GPU on a machine without a driver."""

    class cuda:  # noqa: N801
        class runtime:  # noqa: N801
            getDevice = staticmethod(lambda: 0)  # noqa: N815
            deviceGetPCIBusId = staticmethod(lambda device: "0000:99:00.0")  # noqa: N815


@pytest.mark.parametrize("device", [CPU, Device("gpu", "no GPU", NoRuntime())])  # type: ignore
def test_what_cannot_be_watched_is_reported_in_a_line(device):
    messages = []
    assert guard_gpu(80, device, messages.append) is None
    assert len(messages) == 1
    assert "training continues without monitoring it" in messages[0] and "\n" not in messages[0]
