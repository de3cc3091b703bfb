"""Kernels that may start before the previous one ends, if the GPU and its driver support it."""

import ctypes
from types import SimpleNamespace
from typing import Any

import pytest

from neuralfield.engines.cuda import dependent_launch
from neuralfield.engines.cuda.dependent_launch import DependentLaunch
from neuralfield.system.device import Device


class Kernel:
    """A kernel that records its calls."""

    kernel = SimpleNamespace(ptr=77)

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def __call__(self, *arguments: Any, **settings: Any) -> None:
        self.calls.append((arguments, settings))


class Driver:
    """A driver that records the arguments of a launch, and returns a status."""

    def __init__(self, status: int) -> None:
        self.status, self.found = status, {}

    def cuLaunchKernelEx(self, config: Any, function: Any, pointers: Any, _: Any) -> int:  # noqa: N802
        config = config._obj
        attribute = config.attributes[0]
        self.found = {
            "grid": tuple(config.grid),
            "block": tuple(config.block),
            "shared_bytes": config.shared_bytes,
            "stream": config.stream,
            "attributes": [(attribute.id, attribute.value[0])][: config.attribute_count],
            "function": function.value,
            "arguments": [ctypes.c_uint64.from_address(pointer).value for pointer in pointers],
        }
        return self.status


class DriverError(RuntimeError):
    """A stand-in for the error that CuPy raises."""


def device_of(capability: str, driver: int) -> Device:
    cuda = SimpleNamespace(
        Device=lambda: SimpleNamespace(compute_capability=capability),
        runtime=SimpleNamespace(driverGetVersion=lambda: driver),
        driver=SimpleNamespace(CUDADriverError=DriverError),
        get_current_stream=lambda: SimpleNamespace(ptr=11),
    )
    return Device("gpu", "a GPU", SimpleNamespace(cuda=cuda))  # type: ignore[arg-type]


def array_at(address: int) -> Any:
    return SimpleNamespace(data=SimpleNamespace(ptr=address))


@pytest.mark.parametrize(("capability", "driver"), [("80", 13000), ("90", 12020)])
def test_a_gpu_or_a_driver_that_cannot_gets_a_plain_launch(capability, driver):
    kernel, arguments = Kernel(), (array_at(5), array_at(6))
    DependentLaunch(device_of(capability, driver), kernel, 3, 128, arguments, 64)()
    assert kernel.calls == [(((3, 1), (128,), arguments), {"shared_mem": 64})]


def test_the_driver_is_given_grid_arguments_and_leave_to_overlap(monkeypatch):
    driver = Driver(0)
    monkeypatch.setattr(dependent_launch, "_driver", lambda: driver)
    kernel = Kernel()
    arguments = array_at(2**40 + 5), array_at(6)
    DependentLaunch(device_of("90", 12030), kernel, 3, 128, arguments, 64)()
    assert kernel.calls == []
    assert driver.found == {
        "grid": (3, 1, 1),
        "block": (128, 1, 1),
        "shared_bytes": 64,
        "stream": 11,
        "attributes": [(6, 1)],
        "function": 77,
        "arguments": [2**40 + 5, 6],
    }


def test_a_launch_that_fails_is_an_error(monkeypatch):
    monkeypatch.setattr(dependent_launch, "_driver", lambda: Driver(2))
    launch = DependentLaunch(device_of("90", 13000), Kernel(), 3, 128, (array_at(5),))
    with pytest.raises(DriverError):
        launch()
