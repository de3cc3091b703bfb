"""Read a config, change one setting of it, and collect the messages about it."""

import pytest

from config.configuration import Problems, read_settings


def read(config):
    return read_settings(config)


def complaints(config):
    with pytest.raises(Problems) as caught:
        read(config)
    return [str(error) for error in caught.value.errors]


def changed(config, path, value):
    """Change one of the settings, and return them; dots separate the steps of the path."""
    *steps, last = path.split(".")
    section = config
    for step in steps:
        section = section.setdefault(step, {})
    section[last] = value
    return config
