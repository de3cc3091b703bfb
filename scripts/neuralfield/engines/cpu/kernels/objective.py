"""Output values of the last layer's numbers, the loss and its gradients, as in `losses` and
`Output`.

They are computed in float64, because they are few.
"""

import math

from numba.extending import register_jitable

from neuralfield.engines.kernel_plan import LOSSES, OUTPUTS

_SIGMOID = OUTPUTS.index("sigmoid")
_SQUARED, _CROSS_ENTROPY = LOSSES.index("mse"), LOSSES.index("binary_cross_entropy")
_PROBABILITY_MARGIN = 1e-7


@register_jitable
def output_value(kind, steepness, z):
    """Compute the output value of a number of the last layer."""
    if kind == _SIGMOID:
        return 0.5 + 0.5 * math.tanh(0.5 * steepness * z)
    return 0.5 + 0.5 * z


@register_jitable
def output_gradient(kind, steepness, value):
    """Compute the derivative of `output_value` from the value."""
    return steepness * value * (1 - value) if kind == _SIGMOID else 0.5


@register_jitable
def loss_of_value(kind, delta, value, target):
    """Compute the loss of a value, and its gradient."""
    difference = value - target
    if kind == _SQUARED:
        return difference * difference, 2 * difference
    if kind == _CROSS_ENTROPY:
        # NaN stays NaN
        p = _PROBABILITY_MARGIN if value < _PROBABILITY_MARGIN else value
        p = 1 - _PROBABILITY_MARGIN if p > 1 - _PROBABILITY_MARGIN else p
        loss = -(target * math.log(p) + (1 - target) * math.log1p(-p))
        return loss, (p - target) / (p * (1 - p))
    size = abs(difference)
    near = delta if size > delta else size
    gradient = math.copysign(near, difference)
    return near * (size - near / 2), gradient


@register_jitable
def losses_and_gradients(numbers, length, channels, pixels, samples, objective):
    """Return the loss and squared error of a block; overwrite its numbers with their gradients.

    The stride of points in `numbers` is `length`. The only point of a pixel is its centre; several
    points are two groups, see `neuralfield.nn.sampling.Footprint`. For `samples` see `groups`;
    `objective` is a tuple of the numbers of the output and of the loss, the steepness, Huber's
    delta, and 1 / (values in the batch).
    """
    points, targets, weights = samples.points, samples.targets, samples.weights
    output, kind, steepness, delta, share = objective
    loss = squared = 0.0
    first_points = (points + 1) // 2
    for index in range(len(pixels)):
        pixel = pixels[index]
        weight = weights[pixel] if len(weights) else 1.0
        for channel in range(channels):
            target = float(targets[pixel, channel])
            start = index * points * length + channel
            first = second = 0.0
            for point in range(points):
                place = start + point * length
                value = output_value(output, steepness, float(numbers[place]))
                if point < first_points:
                    first += value
                else:
                    second += value
                numbers[place] = output_gradient(output, steepness, value) * share
            if points == 1:
                part, by_first = loss_of_value(kind, delta, first, target)
                error, by_second = (first - target) ** 2, 0.0
            else:
                first, second = first / first_points, second / (points - first_points)
                error = (first - target) * (second - target)
                if kind == _SQUARED:
                    part, by_first, by_second = error, second - target, first - target
                else:
                    part, gradient = loss_of_value(kind, delta, (first + second) / 2, target)
                    by_first = by_second = gradient / 2
                by_first, by_second = by_first / first_points, by_second / (points - first_points)
            loss += part
            squared += error * weight
            for point in range(points):
                numbers[start + point * length] *= by_first if point < first_points else by_second
    return loss * share, squared * share
