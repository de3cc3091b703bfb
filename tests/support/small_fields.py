"""Settings of a small network of every kind, for tests that cover all kinds."""

SMALL_FIELDS: dict[str, dict] = {
    "siren": {"width": 5, "hidden_layers": 1},
    "finer": {"width": 5, "hidden_layers": 1},
    "wire": {"width": 4, "hidden_layers": 2},
    "gauss": {"width": 5, "hidden_layers": 2, "scale": 2.0},
    "fourier": {"width": 5, "frequencies": 3, "hidden_layers": 1},
    "hashgrid": {"levels": 3, "base_resolution": 2, "log2_table_size": 4, "width": 5},
    "cafe": {"frequencies": 3, "chebyshev_degree": 4, "width": 5},
    "mlp": {"widths": [4, 6], "activation": "relu"},
}
