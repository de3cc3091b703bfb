"""The choice of the cuda engine's pass; the narrow pass must fit on a multiprocessor."""

import pytest
from make_objective import SIREN, make_objective

from neuralfield.engines.cuda import field_engine as cuda_engine
from neuralfield.engines.cuda.fused import narrow_pass
from neuralfield.engines.cuda.fused.wgmma import uses_wgmma
from neuralfield.engines.cuda.fused.wide_pass import share_processors
from neuralfield.engines.cuda.portable.layer_pass import LayerPass
from neuralfield.engines.kernel_plan import NotCovered, batch_plan, network_plan
from neuralfield.system.errors import ConfigError


def mlp(activation, *widths, **settings):
    return {"type": "mlp", "activation": activation, "widths": list(widths), **settings}


FREQUENCIES = {"type": "fourier", "frequencies": 20, "width": 64}
HASHGRID = {"type": "hashgrid", "hidden_layers": 2, "width": 64}
CAFE = {"type": "cafe"}
WIRE = {"type": "wire", "hidden_layers": 2}


@pytest.mark.parametrize(
    ("field", "capability", "precision", "chosen"),
    [
        (SIREN, 90, "auto", "narrow"),
        (SIREN, 90, "float32", "layers"),
        (SIREN, 75, "auto", "layers"),
        ({**SIREN, "width": 65}, 90, "auto", "wide"),
        # five sums of 64 x 64 do not fit on a multiprocessor of 9.0, and four not on one of 8.9
        ({**SIREN, "width": 64, "hidden_layers": 4}, 90, "auto", "narrow"),
        ({**SIREN, "width": 64, "hidden_layers": 5}, 90, "auto", "wide"),
        ({**SIREN, "width": 64, "hidden_layers": 4}, 89, "auto", "wide"),
        ({**FREQUENCIES, "hidden_layers": 4}, 120, "auto", "narrow"),
        ({**HASHGRID, "levels": 16}, 86, "auto", "narrow"),
        ({**HASHGRID, "width": 65}, 90, "auto", "layers"),
        (CAFE, 90, "auto", "layers"),
        ({**WIRE, "width": 128}, 100, "auto", "wide"),
        ({**WIRE, "width": 129}, 90, "auto", "layers"),
    ],
)
def test_the_first_pass_that_covers_a_network_is_taken(field, capability, precision, chosen):
    objective = make_objective(field)
    plans = network_plan(objective.network), batch_plan(objective)
    assert cuda_engine._choose_pass(*plans, precision, capability)[0].name == chosen


def test_the_environment_chooses_the_products_of_other_gpus(monkeypatch):
    assert uses_wgmma(90)
    assert not uses_wgmma(100)
    monkeypatch.setenv("NEURALFIELD_PASS", "portable")
    assert not uses_wgmma(90)
    monkeypatch.setenv("NEURALFIELD_PASS", "wgmma")
    with pytest.raises(ConfigError, match="NEURALFIELD_PASS: wgmma; expected portable"):
        uses_wgmma(90)


def test_wavelets_that_16_bits_cannot_hold_are_computed_in_float32():
    wire = {**WIRE, "omega_0": 30.0, "scale": 7.0}
    objective = make_objective(wire)
    plans = network_plan(objective.network), batch_plan(objective)
    assert cuda_engine._choose_pass(*plans, "auto", 90) == (LayerPass, "float32")
    with pytest.raises(NotCovered, match="wavelets of a frequency above 4 times their scale"):
        cuda_engine._choose_pass(*plans, "mixed", 90)


@pytest.mark.parametrize("activation", ["sine", "relu"])
@pytest.mark.parametrize("width", [16, 32, 48, 64])
def test_no_block_of_the_narrow_pass_is_larger_than_a_multiprocessor(activation, width):
    for layers in range(2, 11):
        network = network_plan(make_objective(mlp(activation, *[width] * layers)).network)
        try:
            tiles = narrow_pass._block_tiles(network, 90)
        except NotCovered:
            continue
        shape = narrow_pass._narrow_network(network, tiles)
        assert narrow_pass._block_bytes(shape) <= 227 * 1024
        sums = sum(shape.widths[index] for index in shape.matrices) // 2
        registers = {2: 255, 3: 168, 4: 128}[tiles]
        assert sums + shape.widest < registers


@pytest.mark.parametrize("tiles", [3, 264, 625])
@pytest.mark.parametrize("processors", [4, 132])
def test_sums_of_gradients_are_shared_by_the_multiprocessors(tiles, processors):
    works = [(1, 320), (1, 448), (2, 320), (1, 256), (1, 192), (1, 192)]
    shares = share_processors(works, tiles, processors)
    taken = sum(count * blocks for count, (blocks, _) in zip(shares, works, strict=True))
    assert all(1 <= count <= tiles for count in shares)
    if processors == 132:
        assert taken == processors or shares == [tiles] * len(works)
    else:
        assert shares == [1] * len(works)
