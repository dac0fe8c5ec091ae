"""Linear regression, one sample at a time: recursive least squares with forgetting.

Made to run for months. Old samples fade (`FORGETTING`), and the fading stops when there is nothing new to learn,
because otherwise uncertainty would grow without bound (`_MAX_SPREAD`). An outlier moves the line only as far as a few
typical errors would. Samples that are not finite are ignored, and if the arithmetic becomes non-finite the model
restarts. A prediction is a finite number, or None before enough samples.
"""

from collections.abc import Sequence
from math import isfinite

FORGETTING = 0.995
LEAST_SAMPLES = 10
_START_SPREAD = 100.0
_MAX_SPREAD = 1e4
_ERRORS_TRUSTED = 5.0
_SMOOTHING = 0.05


class Regression:
    """`features` numbers in, one out. The caller adds a constant feature if it needs one."""

    __slots__ = ("_features", "_spread", "_usual_error", "_usual_size", "_weights", "samples")

    def __init__(self, features: int) -> None:
        self._features = features
        self._restart()

    def _restart(self) -> None:
        size = self._features
        self._weights = [0.0] * size
        self._spread = [[_START_SPREAD if row == column else 0.0 for column in range(size)] for row in range(size)]
        self._usual_error = 0.0
        self._usual_size = 0.0
        self.samples = 0

    def predict(self, features: Sequence[float]) -> float | None:
        if self.samples < LEAST_SAMPLES:
            return None
        found = sum(map(float.__mul__, self._weights, features))
        return found if isfinite(found) else None

    @property
    def confidence(self) -> float:
        """In [0, 1]: 0 before enough was seen; then higher the more was seen and the smaller the usual error is."""
        if self.samples < LEAST_SAMPLES or not self._usual_size:
            return 0.0
        seen = self.samples / (self.samples + LEAST_SAMPLES)
        return seen * max(0.0, 1.0 - self._usual_error / self._usual_size)

    def learn(self, features: Sequence[float], outcome: float) -> None:
        if not isfinite(outcome) or not all(map(isfinite, features)):
            return
        error = self._trusted(outcome - sum(map(float.__mul__, self._weights, features)), outcome)
        leaned = [sum(map(float.__mul__, row, features)) for row in self._spread]
        scale = FORGETTING + sum(map(float.__mul__, features, leaned))
        gain = [each / scale for each in leaned]
        self._weights = [weight + each * error for weight, each in zip(self._weights, gain, strict=True)]
        self._spread = [
            [old - each * lean for old, lean in zip(row, leaned, strict=True)]
            for row, each in zip(self._spread, gain, strict=True)
        ]
        self._fade()
        self.samples += 1
        if not all(map(isfinite, self._weights)):
            self._restart()

    def _fade(self) -> None:
        size = range(self._features)
        if sum(self._spread[at][at] for at in size) < _MAX_SPREAD:
            self._spread = [[each / FORGETTING for each in row] for row in self._spread]

    def _trusted(self, error: float, outcome: float) -> float:
        """The error, cut to a few usual ones once it is known what is usual."""
        size = abs(error)
        most = _ERRORS_TRUSTED * max(self._usual_error, 0.01 * self._usual_size)
        cut = min(size, most) if self.samples >= LEAST_SAMPLES else size
        share = max(_SMOOTHING, 1.0 / (self.samples + 1))
        self._usual_error += share * (cut - self._usual_error)
        self._usual_size += share * (abs(outcome) - self._usual_size)
        return cut if error > 0.0 else -cut
