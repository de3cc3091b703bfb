// The output value of the last layer's number z, the loss of values, and the derivatives of both.
// Reference implementations: fields/coordinate_network.py (Output), nn/losses.py.
//
// Constants: OUTPUT_SIGMOID (0, 1), STEEPNESS, LOSS, HUBER_DELTA.
#pragma once

#define PROBABILITY_MARGIN 1e-7f

__device__ __forceinline__ float output_value(float z) {
#if OUTPUT_SIGMOID
    return 1.0f / (1.0f + __expf(-float(STEEPNESS) * z));
#else
    return 0.5f + 0.5f * z;
#endif
}

// d value / d z
__device__ __forceinline__ float output_derivative(float value) {
#if OUTPUT_SIGMOID
    return float(STEEPNESS) * value * (1.0f - value);
#else
    return 0.5f;
#endif
}

__device__ __forceinline__ float clipped_probability(float value) {
    // not fminf and fmaxf, which would hide a NaN
    return value < PROBABILITY_MARGIN          ? PROBABILITY_MARGIN
           : value > 1.0f - PROBABILITY_MARGIN ? 1.0f - PROBABILITY_MARGIN
                                               : value;
}

__device__ __forceinline__ float loss_value(float value, float target) {
#if LOSS == MSE
    float difference = value - target;
    return difference * difference;
#elif LOSS == BINARY_CROSS_ENTROPY
    float p = clipped_probability(value);
    return -fmaf(target, logf(p), (1.0f - target) * log1pf(-p));
#else
    float size = fabsf(value - target), near = fminf(size, float(HUBER_DELTA));
    return near * (size - 0.5f * near);
#endif
}

// d loss / d value
__device__ __forceinline__ float loss_derivative(float value, float target) {
#if LOSS == MSE
    return 2.0f * (value - target);
#elif LOSS == BINARY_CROSS_ENTROPY
    float p = clipped_probability(value);
    return (p - target) / (p * (1.0f - p));
#else
    return fminf(fmaxf(value - target, -float(HUBER_DELTA)), float(HUBER_DELTA));
#endif
}

// Loss, squared error, and the gradients of the loss with respect to the means of a pixel's two
// groups of points. The squared error's two factors are independent estimates, so its
// expectation does not include the jitter's variance (see squared_error_of_means in nn/losses.py).
struct FootprintLoss {
    float loss, squared_error, gradient0, gradient1;
};

__device__ __forceinline__ FootprintLoss footprint_loss(float mean0, float mean1, float target) {
    FootprintLoss result;
    float error0 = mean0 - target, error1 = mean1 - target;
    result.squared_error = error0 * error1;
#if LOSS == MSE
    result.loss = result.squared_error;
    result.gradient0 = error1;
    result.gradient1 = error0;
#else
    float mean = 0.5f * (mean0 + mean1);
    result.loss = loss_value(mean, target);
    result.gradient0 = result.gradient1 = 0.5f * loss_derivative(mean, target);
#endif
    return result;
}
