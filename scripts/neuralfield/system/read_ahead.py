"""Reading of the next item while the present one is processed."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")


def read_ahead(items: Iterator[Item]) -> Iterator[Item]:
    """Yield items other than None, and compute the next one in a thread."""
    with ThreadPoolExecutor(1) as reader:
        future = reader.submit(next, items, None)
        while (item := future.result()) is not None:
            future = reader.submit(next, items, None)
            yield item
