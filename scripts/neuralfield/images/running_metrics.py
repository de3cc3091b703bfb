"""The numbers of `metrics` for pictures too large to be in memory: they come in bands of rows."""

import math

import numpy as np

from neuralfield.images.metrics import WINDOW_TAPS, finite_db, ssim, wrong_pixels


class RunningMetrics:
    """PSNR, SSIM and wrong pixels of two pictures that come from top to bottom.

    Attributes
    ----------
    wrong_pixels : int
        See `metrics.wrong_pixels`.
    """

    def __init__(self) -> None:
        self.wrong_pixels = 0
        self._error, self._count = 0.0, 0
        self._error_at_seams, self._count_at_seams = 0.0, 0
        self._similarity, self._positions = 0.0, 0
        self._above: tuple[np.ndarray, np.ndarray] | None = None

    def add(self, image: np.ndarray, reference: np.ndarray, at_seams: np.ndarray) -> None:
        """Take the next rows.

        Parameters
        ----------
        image, reference : ndarray of float32, shape (rows, width, channels)
            Values in [0, 1].
        at_seams : ndarray of bool, shape (rows, width)
            Which pixels lie at a seam.
        """
        squares = np.square(image - reference, dtype=np.float64).sum(axis=2)
        self._error += float(squares.sum())
        self._count += image.size
        self._error_at_seams += float(squares[at_seams].sum())
        self._count_at_seams += int(np.count_nonzero(at_seams)) * image.shape[2]
        self.wrong_pixels += wrong_pixels(image, reference)
        self._add_similarity(image, reference)

    def psnr_db(self) -> float:
        """See `metrics.psnr_db`; `metrics.IDENTICAL_DB` for identical pictures."""
        return _psnr_db(self._error, self._count)

    def seam_psnr_db(self) -> float | None:
        """The same of the pixels at seams; None where there are none."""
        if not self._count_at_seams:
            return None
        return _psnr_db(self._error_at_seams, self._count_at_seams)

    def ssim(self) -> float:
        """See `metrics.ssim`."""
        if self._positions:
            return self._similarity / self._positions
        assert self._above is not None
        return ssim(*self._above)  # fewer rows than a window has

    def _add_similarity(self, image: np.ndarray, reference: np.ndarray) -> None:
        """Every position of the window whose last row is new; the rows above are kept for it."""
        if self._above is not None:
            image = np.concatenate([self._above[0], image])
            reference = np.concatenate([self._above[1], reference])
        positions = len(image) - WINDOW_TAPS + 1
        if positions >= 1:
            self._similarity += positions * ssim(image, reference)
            self._positions += positions
            image, reference = image[positions:], reference[positions:]
        self._above = (image.copy(), reference.copy())


def _psnr_db(error: float, count: int) -> float:
    return finite_db(-10 * math.log10(error / count) if error else math.inf)
