"""The temperature of a real GPU."""

import pytest
from processes import output_of

from neuralfield.system.device import gpu_is_present, select_device
from neuralfield.system.heat import HeatGuard, gpu_sensor

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not gpu_is_present(), reason="no NVIDIA driver answers, or no CuPy"),
]


def test_the_sensor_reads_the_temperature_of_the_gpu_that_is_computed_on():
    device = select_device("gpu")
    celsius = gpu_sensor(device)()
    assert 5 < celsius < 110
    runtime = device.xp.cuda.runtime
    bus = runtime.deviceGetPCIBusId(runtime.getDevice())
    asked = ["nvidia-smi", f"--id={bus}", "--query-gpu=temperature.gpu", "--format=csv,noheader"]
    reported = output_of(asked)
    assert abs(celsius - float(reported)) <= 10


def test_a_gpu_is_too_hot_for_a_limit_below_its_temperature_and_not_above():
    sensor = gpu_sensor(select_device("gpu"))
    assert HeatGuard(sensor, 1, print).is_too_hot()
    assert not HeatGuard(sensor, 150, print).is_too_hot()
