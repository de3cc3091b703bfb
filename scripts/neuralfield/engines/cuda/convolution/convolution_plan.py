"""Sizes of tiles, threads and blocks of a convolution's kernels.

All sizes, and with them the order of all sums, depend only on the shapes, the batch and the number
of the GPU's multiprocessors.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from math import prod

SHARED_LIMIT_BYTES = 64 << 10
"""Shared memory that a block can have on every GPU from compute capability 7.5 up."""

WIDEST_POOL = 5
WIDEST_KERNEL = 15
"""Maximum sides of pooling windows and of kernels, because a thread keeps the sums of a window, and
a row of the kernel, in its registers."""

_MOST_THREADS = 512
_USUAL_THREADS = 256
_MOST_SUMS = {"FORWARD": 32, "BACKWARD": 64, "GRADIENT": 32}
"""Maximum number of sums of a thread, by kernel."""

_MOST_FACTORS = 32
"""Maximum number of weights that a thread keeps in registers."""

_BLOCKS = 2
"""Number of blocks for each multiprocessor."""

_MOST_GRADIENT_IMAGES = 4
_LEAST_CHANNELS = 4
"""Minimum number of channels that are staged at a time: with fewer, threads spend more time waiting
for memory than computing."""


@dataclass(frozen=True)
class ConvolutionShape:
    """A convolution of images `height` x `width`, with its pooling."""

    channels_in: int
    height: int
    width: int
    channels_out: int
    kernel: int  # side of the kernel
    padding: int  # zeros around the image
    pool: int  # side of the pooling's windows
    is_last: bool  # whether linear layers come next, which read values place by place
    has_relu: bool = True

    @property
    def sides_out(self) -> tuple[int, int]:
        """Height and width after pooling."""
        places = (side + 2 * self.padding - self.kernel + 1 for side in (self.height, self.width))
        high, wide = (count // self.pool for count in places)
        return high, wide

    @property
    def values_out(self) -> int:
        high, wide = self.sides_out
        return self.channels_out * high * wide

    @property
    def parameters(self) -> int:
        """The number of weights and biases."""
        return (self.kernel**2 * self.channels_in + 1) * self.channels_out

    def constants(self, batch: int) -> dict[str, int]:
        high, wide = self.sides_out
        return {
            "IN_CHANNELS": self.channels_in,
            "IN_HEIGHT": self.height,
            "IN_WIDTH": self.width,
            "OUT_CHANNELS": self.channels_out,
            "OUT_HEIGHT": high,
            "OUT_WIDTH": wide,
            "KERNEL": self.kernel,
            "PADDING": self.padding,
            "POOL": self.pool,
            "FLAT": int(self.is_last),
            "RELU": int(self.has_relu),
            "BATCH": batch,
        }


@dataclass(frozen=True)
class KernelPlan:
    """The constants and the launch of one kernel."""

    constants: dict[str, int]
    grid: tuple[int, int, int]
    threads: int  # of a block, as is the shared memory
    shared_bytes: int


def kernel_plans(
    shape: ConvolutionShape, batch: int, multiprocessors: int, least_blocks: int = 1
) -> dict[str, KernelPlan] | None:
    """Plan the kernels of a convolution, or return None if one does not fit into a block's limits.

    The plans of `convolve`, `gradients_back` and `gradient` are under the prefixes of their
    constants: FORWARD, BACKWARD and GRADIENT; the first side of the last one's grid is the number
    of parts. Work is divided until there are `least_blocks` blocks, or as many as possible.
    """
    kernels = {"FORWARD": _forward_plans, "BACKWARD": _backward_plans, "GRADIENT": _gradient_plans}
    found = {}
    for prefix, plans in kernels.items():
        plan = _first_of(plans(shape, batch, multiprocessors), least_blocks)
        if plan is None:
            return None
        found[prefix] = plan
    return found


def _forward_plans(
    shape: ConvolutionShape, batch: int, multiprocessors: int
) -> Iterator[KernelPlan]:
    high, wide = shape.sides_out
    tile = 1 if shape.pool > 1 else 4
    tile_wide = tile * shape.pool
    tiles = -(-wide // tile)
    group = _group("FORWARD", shape, shape.channels_out, shape.pool * tile_wide)
    groups_all = -(-shape.channels_out // group)
    step = 4 if tile_wide % 4 == 0 else 2 if tile_wide % 2 == 0 else 1
    window = _rounded_up(tile_wide + shape.kernel - 1, step)
    stride = _rounded_up((tiles - 1) * tile_wide + window, 4)
    row = _rounded_up(shape.kernel * group, 4)
    for band, staged, groups in _cuts(high, shape.channels_in, groups_all):
        units = groups * band * tiles
        image = staged * (band * shape.pool + shape.kernel - 1) * stride
        weights = staged * shape.kernel * groups * row
        whole = batch if band == high else 1  # a part of an image has its own block
        images = _images(units, whole, multiprocessors, image, weights)
        if not images:
            continue
        units *= images
        split = min(max(1, _USUAL_THREADS // units), staged)
        sums = (split - 1) * units * shape.pool * tile_wide * group
        constants = {
            "IMAGES": images,
            "BAND": band,
            "STAGED": staged,
            "GROUP": group,
            "GROUPS": groups,
            "TILE": tile,
            "SPLIT": split,
            "STRIDE": stride,
            "THREADS": split * units,
        }
        floats = max(images * image + weights, sums)
        grid = (-(-batch // images), -(-high // band), -(-groups_all // groups))
        yield _plan("FORWARD", constants, grid, floats)


def _backward_plans(
    shape: ConvolutionShape, batch: int, multiprocessors: int
) -> Iterator[KernelPlan]:
    high, wide = shape.sides_out
    tile = shape.width if shape.width <= 16 else 8
    tiles = -(-shape.width // tile)
    group = _group("BACKWARD", shape, shape.channels_in, tile)
    groups_all = -(-shape.channels_in // group)
    margin = shape.kernel - 1 - shape.padding
    window = _rounded_up(tile + shape.kernel - 1, 4)
    stride = _odd_stride(max((tiles - 1) * tile + window, margin + wide * shape.pool))
    row = _rounded_up(shape.kernel * group, 4)
    for band, staged, groups in _cuts(shape.height, shape.channels_out, groups_all):
        units = groups * band * tiles
        rows = min(high, (band + shape.kernel - 2) // shape.pool + 2)
        image = staged * rows * shape.pool * stride
        weights = staged * shape.kernel * groups * row
        whole = batch if band == shape.height else 1
        images = _images(units, whole, multiprocessors, image, weights)
        if not images:
            continue
        units *= images
        split = min(max(1, _USUAL_THREADS // units), staged)
        constants = {
            "IMAGES": images,
            "BAND": band,
            "STAGED": staged,
            "GROUP": group,
            "GROUPS": groups,
            "TILE": tile,
            "TILES": tiles,
            "SPLIT": split,
            "ROWS": rows,
            "STRIDE": stride,
            "THREADS": split * units,
        }
        floats = max(images * image + weights, split * units * (tile * group | 1))
        grid = (-(-batch // images), -(-shape.height // band), -(-groups_all // groups))
        yield _plan("BACKWARD", constants, grid, floats)


def _gradient_plans(
    shape: ConvolutionShape, batch: int, multiprocessors: int
) -> Iterator[KernelPlan]:
    high, wide = shape.sides_out
    tile = 8 if wide * shape.pool >= 8 else 4
    tiles = -(-wide * shape.pool // tile)
    group = _group("GRADIENT", shape, shape.channels_out, shape.kernel)
    groups_all = -(-shape.channels_out // group)
    window = _rounded_up(tile + shape.kernel - 1, 4)
    image_stride = _odd_stride((tiles - 1) * tile + window)
    gradient_stride = tiles * tile
    for band, staged, groups in _cuts(high, shape.channels_in, groups_all):
        rows = staged * shape.kernel + 1
        units, lines = rows * groups, band * shape.pool
        # equal to the kernel's side modulo 8: the lines for the kernel's rows, and then those of
        # the next channel, begin in banks one after another
        image_lines = lines + shape.kernel - 1
        if staged > 1:
            image_lines += (shape.kernel - image_lines) % 8
        image = staged * image_lines * image_stride
        gradients = groups * group * lines * gradient_stride
        if units > _MOST_THREADS or 4 * (image + gradients + image_stride) > SHARED_LIMIT_BYTES:
            continue
        bands = -(-high // band)
        cuts = -(-shape.channels_in // staged), -(-groups_all // groups)
        fitting = (SHARED_LIMIT_BYTES // 4 - image_stride) // (image + gradients)
        fitting = min(fitting, _MOST_GRADIENT_IMAGES)
        # one block per multiprocessor with all its images at once, or several, which do not all
        # wait at the same time
        share = -(-batch * bands * cuts[0] * cuts[1] // multiprocessors)
        blocks = multiprocessors if share <= fitting else _BLOCKS * multiprocessors
        blocks = max(1, blocks // (cuts[0] * cuts[1]))
        images = min(-(-batch * bands // blocks), fitting)
        most = max(1, min(images * lines, _MOST_THREADS // units))
        split = -(-images * lines // -(-images * lines // most))  # no more than are useful
        constants = {
            "IMAGES": images,
            "BAND": band,
            "BANDS": bands,
            "STAGED": staged,
            "GROUP": group,
            "GROUPS": groups,
            "TILE": tile,
            "TILES": tiles,
            "SPLIT": split,
            "IMAGE_LINES": image_lines,
            "IMAGE_STRIDE": image_stride,
            "OUT_STRIDE": gradient_stride,
            "THREADS": split * units,
        }
        staged_floats = images * (image + gradients) + image_stride
        floats = max(staged_floats, split * units * (shape.kernel * group | 1))
        parts = min(-(-batch * bands // images), blocks)
        yield _plan("GRADIENT", constants, (parts, *cuts), floats)


def unsupported_reason(shape: ConvolutionShape) -> str | None:
    """Return the reason why there are no kernels for a convolution, or None."""
    if shape.kernel > WIDEST_KERNEL:
        return f"a kernel wider than {WIDEST_KERNEL}"
    if shape.pool > WIDEST_POOL:
        return f"windows of pooling wider than {WIDEST_POOL}"
    if kernel_plans(shape, 1, 1) is None:
        return (
            f"images of {shape.width} x {shape.height} with {shape.channels_in} channels: "
            "their rows do not fit into a block of threads"
        )
    return None


def _first_of(plans: Iterable[KernelPlan], least_blocks: int) -> KernelPlan | None:
    """Return the first plan that fits into shared memory and has at least `least_blocks` blocks,
    otherwise the first one with the most blocks, or None if no plan fits."""
    most: KernelPlan | None = None
    for plan in plans:
        if plan.shared_bytes > SHARED_LIMIT_BYTES:
            continue
        if prod(plan.grid) >= least_blocks:
            return plan
        if most is None or prod(plan.grid) > prod(most.grid):
            most = plan
    return most


def _plan(
    prefix: str, constants: dict[str, int], grid: tuple[int, int, int], floats: int
) -> KernelPlan:
    named = {f"{prefix}_{name}": number for name, number in constants.items()}
    return KernelPlan(named, grid, constants["THREADS"], 4 * floats)


def _group(kernel: str, shape: ConvolutionShape, channels: int, sums: int) -> int:
    """Choose the number of channels of a thread, each of which takes `sums` sums: the fewest groups
    that registers allow, and then the fewest channels."""
    most = max(1, min(channels, _MOST_SUMS[kernel] // sums, _MOST_FACTORS // shape.kernel, 8))
    return min(range(1, most + 1), key=lambda group: (-(-channels // group), group))


def _images(units: int, batch: int, multiprocessors: int, image: int, weights: int) -> int:
    """Choose the number of images of a block, such that all multiprocessors have work and blocks
    have enough threads; 0 if there is not enough space for one image."""
    if units > _MOST_THREADS or 4 * (image + weights) > SHARED_LIMIT_BYTES:
        return 0
    each = round(batch / (_BLOCKS * multiprocessors))
    fitting = (SHARED_LIMIT_BYTES // 4 - weights) // image
    return max(1, min(each, _USUAL_THREADS // units, fitting))


def _cuts(lines: int, channels: int, groups: int) -> Iterator[tuple[int, int, int]]:
    """Yield sizes of a block, largest first: its band, its channels at a time and its groups.

    Channels are divided first, because a block processes one lot of them after another. With other
    divisions, several blocks stage the same data.
    """
    bands, lots, cuts = _halves(lines), _halves(channels), _halves(groups)
    for least in (_LEAST_CHANNELS, 1):
        for band, cut in product(bands, cuts):
            yield from ((band, lot, cut) for lot in lots if lot >= min(least, channels))


def _halves(number: int) -> list[int]:
    found = [number]
    while found[-1] > 1:
        found.append(-(-found[-1] // 2))
    return found


def _rounded_up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


def _odd_stride(number: int) -> int:
    """Round up to an odd multiple of four: lines with this stride begin in different banks."""
    return _rounded_up(number - 4, 8) + 4
