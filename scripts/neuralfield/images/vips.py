"""Which parts of libvips may open files: it knows many formats, PDF and SVG among them."""


def only_loaders(*names: str) -> None:
    """Let libvips open files by these loaders alone, as it calls them: ``Png``, ``Tiff``."""
    import pyvips

    pyvips.cache_set_max(0)  # nothing is read twice
    pyvips.operation_block_set("VipsForeignLoad", True)
    for name in names:
        pyvips.operation_block_set(f"VipsForeignLoad{name}", False)
