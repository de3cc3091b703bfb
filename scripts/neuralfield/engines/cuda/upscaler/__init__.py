"""The cuda engine for upscalers."""
