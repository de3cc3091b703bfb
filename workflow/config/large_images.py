"""Images that are trained in tiles: checks of their settings, and their division into tiles."""

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any

from config.schema import OTHER_KINDS
from config.sources import WhereIs
from neuralfield.images import Header, read_header
from neuralfield.images.tiling import Tile, Tiling
from neuralfield.system.errors import ConfigError, NeuralfieldError

USUAL_OVERLAP_PX = 32

MOST_TILES = 10_000
"""Maximum number of tiles of an image: Snakemake checks their files each time it starts, which
takes long for more tiles."""

MOST_LISTS = 128
"""Maximum number of lists of files of each network's tiles: Snakemake takes long to check each file
of each tile if there are thousands. It must not depend on settings or on the machine: otherwise the
workflow would request other lists for tiles that are already trained."""

MOST_JOBS = 16
"""Default maximum number of jobs that the tiles of an image are divided among, for each network:
enough for the cores or the GPUs of a machine, and few enough that the time to start them is
negligible. The number must not depend on the machine, because each job of a cluster recomputes the
division."""


def usual_overlap_px(size_px: int) -> int:
    """Return the default overlap of tiles: `USUAL_OVERLAP_PX`, or less for small tiles."""
    return min(USUAL_OVERLAP_PX, size_px // 8)


def tile_groups(tiling: Tiling, per_job: int | None) -> list[tuple[tuple[Tile, ...], ...]]:
    """Divide the tiles of an image among jobs, about `per_job` tiles or an automatic number each.

    All jobs have nearly the same number of tiles. A job has all tiles of one or more file lists.
    """
    lists = _divided(list(tiling), MOST_LISTS)
    jobs = MOST_JOBS if per_job is None else -(-tiling.count // per_job)
    return _divided(lists, jobs)


def _divided(items: list[Any], most_parts: int) -> list[Any]:
    """Divide a list, in its order, into at most `most_parts` parts of nearly the same length."""
    parts = min(most_parts, len(items))
    ends = [number * len(items) // parts for number in range(parts + 1)]
    return [tuple(items[first:end]) for first, end in pairwise(ends)]


def complaints(name: str, settings: Mapping[str, Any], where_is: WhereIs) -> Iterator[ConfigError]:
    """Yield the errors in the tile settings of an image whose file exists."""

    def where(*keys: str) -> str:
        return where_is(("images", name, *keys))

    image = settings["images"][name]
    if "tiles" not in image:
        return
    for key in ("size", "page"):
        if image.get(key):
            remedy = "remove one of the two; tiles are parts of the image as it is, at its own size"
            yield ConfigError(where(key), image[key], f"tiles without {key}", remedy)
    swept = (
        field
        for sweep in settings["sweeps"].values()
        if name in sweep.get("images", settings["images"])
        for field in sweep["fields"]
    )
    for field in dict.fromkeys([*image.get("fields", settings["fields"]), *swept]):
        kind = settings["fields"].get(field, {}).get("type")
        if kind in OTHER_KINDS:
            expected = "only fields that are trained by this workflow"
            remedy = "list those under `fields` of this image, and of sweeps over it"
            yield ConfigError(where("fields"), f"{field!r} is of type {kind}", expected, remedy)
    size = image["tiles"]["size"]
    overlap = image["tiles"]["overlap"]
    if overlap > size // 3:
        expected = f"at most {size // 3} pixels, a third of a tile"
        remedy = "make it smaller, or tiles.size larger"
        yield ConfigError(where("tiles", "overlap"), overlap, expected, remedy)
        return
    try:
        header = read_header(image["path"])
    except NeuralfieldError as error:
        remedy = "save it as a TIFF, PNG or JPEG, or remove tiles"
        found = f"{error.where} {error.found}"
        yield ConfigError(where("path"), found, error.expected, remedy)
        return
    yield from _sizes(image, header, settings["max_megapixels"], where)


def _sizes(
    image: Mapping[str, Any], header: Header, max_megapixels: float, where: Callable[..., str]
) -> Iterator[ConfigError]:
    """Yield an error for each size that does not suit the image."""
    size, longer = image["tiles"]["size"], max(header.width, header.height)
    if size >= longer:
        expected = f"less than the image's longer side, {longer} pixels"
        yield ConfigError(
            where("tiles", "size"), size, expected, "remove tiles: the image is small enough"
        )
        return
    if not header.row_by_row and header.width * header.height > 1e6 * max_megapixels:
        found = (
            f"{image['path']} has {header.width * header.height:,} pixels, not stored row by row,"
            " and has to be read into memory as a whole"
        )
        remedy = (
            f"store it in tiles (vips copy {image['path']} large.tif[tile,compression=deflate,"
            "bigtiff]), or raise max_megapixels"
        )
        yield ConfigError(where("path"), found, f"at most {max_megapixels:g} million", remedy)
    count = Tiling(header.width, header.height, size, image["tiles"]["overlap"]).count
    if count > MOST_TILES:
        found, expected = f"{size}, which makes {count:,} tiles", f"at most {MOST_TILES:,} tiles"
        yield ConfigError(where("tiles", "size"), found, expected, "raise it")


def headers_and_tilings(images: Mapping[str, Any]) -> dict[str, tuple[Header, Tiling]]:
    """Return the header and the tiling of each image that has tiles, by the image's name."""
    found = {}
    for name, image in images.items():
        if "tiles" in image:
            header, tiles = read_header(image["path"]), image["tiles"]
            tiling = Tiling(header.width, header.height, tiles["size"], tiles["overlap"])
            found[name] = (header, tiling)
    return found
