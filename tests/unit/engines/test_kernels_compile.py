"""NVIDIA's compiler, which needs no GPU, compiles the kernels for every kind of GPU."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from kernel_texts import complaints_of_compiler, kernel_texts, nvrtc, recorded_kernels
from make_latent_objective import make_latent_objective
from make_objective import SIREN, make_objective

from neuralfield.engines.cuda.latents.decoder import decoder_module
from neuralfield.engines.cuda.latents.latent_kernels import LatentKernels
from neuralfield.rendering import gpu_resampling
from neuralfield.rendering.gpu_patches import GpuPatches

pytestmark = pytest.mark.skipif(nvrtc() is None, reason="nvidia-cuda-nvrtc is not installed")

CAPABILITIES = (75, 80, 86, 89, 90, 100, 120)
NEWEST_OFTEN = [pytest.param(c, marks=() if c == 120 else pytest.mark.slow) for c in CAPABILITIES]
"""The newest GPU is tested in every run, the others only in slow runs."""

GRIDS = {
    "type": "hashgrid",
    "levels": 3,
    "base_resolution": 3,
    "log2_table_size": 7,
    "hidden_layers": 1,
    "width": 16,
}
OTHERS = {
    "wire": ({"type": "wire", "hidden_layers": 1, "width": 8}, {}, "auto"),
    "grids": (GRIDS, {"channels": 3}, "auto"),
    "grids, some pixels": (GRIDS, {"batch_pixels": 65}, "auto"),
    "cafe": ({"type": "cafe", "width": 17}, {"points": 3}, "auto"),
    "cafe of 8 factors": (
        {"type": "cafe", "chebyshev_degree": 0, "factors": 8, "hidden_layers": 2, "width": 32},
        {"points": 3, "channels": 4},
        "auto",
    ),
    "float32": (SIREN, {"detail_share": 0.5, "batch_pixels": 65}, "float32"),
    "muon": (SIREN, {"optimizer": "muon", "gradient_clip_norm": 0.1}, "auto"),
}


def compile_all(texts, capability):
    codes, options = zip(*sorted(texts), strict=True)
    with ThreadPoolExecutor(2) as compilers:
        capabilities = [capability] * len(codes)
        complaints = compilers.map(complaints_of_compiler, codes, options, capabilities)
        return [complaint for complaint in complaints if complaint]


@pytest.mark.parametrize("capability", NEWEST_OFTEN)
def test_the_fused_passes_compile(monkeypatch, capability):
    narrow = make_objective({**SIREN, "width": 16}, channels=3)
    wider = make_objective({**SIREN, "width": 80, "hidden_layers": 1}, batch_pixels=65)
    texts, passes = set(), []
    for objective in (narrow, wider):
        name, found = kernel_texts(monkeypatch, objective, capability, "auto")
        texts |= found
        passes.append(name)
    assert passes == (["layers"] * 2 if capability == 75 else ["narrow", "wide"])
    assert compile_all(texts, capability) == []


@pytest.mark.slow
@pytest.mark.parametrize(("capability", "sharers"), [(86, 1), (90, 2)])
def test_the_passes_compile_for_layers_of_more_than_128_values(monkeypatch, capability, sharers):
    """Blocks then share gradients, or tiles are in shared memory instead of registers."""
    objective = make_objective({**SIREN, "width": 136, "hidden_layers": 2}, batch_pixels=65)
    name, texts = kernel_texts(monkeypatch, objective, capability, "auto")
    assert name == "wide"
    assert any(f"#define SHARERS {sharers}\n" in code for code, _ in texts)
    assert compile_all(texts, capability) == []


@pytest.mark.slow
@pytest.mark.parametrize("case", OTHERS)
@pytest.mark.parametrize("capability", CAPABILITIES)
def test_all_kernels_compile(monkeypatch, capability, case):
    field, settings, precision = OTHERS[case]
    objective = make_objective(field, **settings)
    _, texts = kernel_texts(monkeypatch, objective, capability, precision)
    assert compile_all(texts, capability) == []


@pytest.mark.parametrize("capability", NEWEST_OFTEN)
def test_the_kernels_that_refine_an_image_compile(monkeypatch, capability):
    with recorded_kernels(monkeypatch, capability) as (device, texts):
        GpuPatches(np.zeros((3, 10, 20), np.float32), 40, 80, 2, device)
        gpu_resampling._kernel.__wrapped__(0)
    assert len(texts) == 2
    assert compile_all(texts, capability) == []


@pytest.mark.parametrize("capability", NEWEST_OFTEN[1:])
def test_the_kernels_of_coded_images_compile(monkeypatch, capability):
    objective = make_latent_objective("float32", 40, 50, "rgba", hidden=17)
    with recorded_kernels(monkeypatch, capability) as (device, texts):
        LatentKernels(objective, device, np.zeros(2))
        for name in ("decode", "enlarge", "synthesise"):
            decoder_module(5, 17, 4, 4).get_function(name)
    assert len(texts) == 5
    assert compile_all(texts, capability) == []
