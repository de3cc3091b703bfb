// The last layer, the loss, and the backward pass of both, with a single pass over the last
// activations.
//
// Constants: those of NetworkPlan and BatchPlan, ACTIVATION and FACTORS (of the layer before),
// MIXED, GRADIENT_SCALE.
#include "../activations.cuh"
#include "column_sums.cuh"
#include "../loss.cuh"
#include "output_product.cuh"
#include "product.cuh"

#define VALUES (TILE_ROWS * CHANNELS)

// Returns a pixel's mean over `count` points from `first` on, in one channel.
__device__ __forceinline__ float mean_of_points(const float* values, int first, int count) {
    float sum = 0.0f;
    for (int point = first; point < first + count; ++point) sum += values[point * CHANNELS];
    return sum / float(count);
}

// Computes, from the values (64, CHANNELS) of a tile, the gradients of the unnormalised loss with
// respect to z, times GRADIENT_SCALE, and adds this thread's loss and squared error.
// `mean_gradients` is memory for the gradients with respect to the means of the two groups of
// points, of each pixel and channel.
__device__ __forceinline__ void loss_and_gradients(const float* values, float* gradients,
                                                   float* mean_gradients, int tile,
                                                   const float* targets, const float* slot_weights,
                                                   double& loss, double& squared_error) {
    const int thread = int(threadIdx.x), channel = thread % CHANNELS;
    const int pixel = thread / CHANNELS;
    const long long slot = (long long)tile * TILE_PIXELS + pixel;
    if (pixel < TILE_PIXELS && slot < PIXELS) {
        const float target = targets[slot * CHANNELS + channel];
        FootprintLoss at;
#if FOOTPRINT
        const float* points = values + pixel * POINTS * CHANNELS + channel;
        const float mean0 = mean_of_points(points, 0, GROUP_0_POINTS);
        const float mean1 = mean_of_points(points, GROUP_0_POINTS, POINTS - GROUP_0_POINTS);
        at = footprint_loss(mean0, mean1, target);
#else
        const float value = values[thread];
        at.loss = loss_value(value, target);
        at.squared_error = (value - target) * (value - target);
        at.gradient0 = at.gradient1 = loss_derivative(value, target);
#endif
        loss += double(at.loss);
#if WEIGHTED
        squared_error += double(at.squared_error) * double(slot_weights[slot]);
#else
        squared_error += double(at.squared_error);
#endif
        mean_gradients[2 * thread] = at.gradient0;
        mean_gradients[2 * thread + 1] = at.gradient1;
    }
    __syncthreads();
    if (thread < VALUES) {
        const int row = thread / CHANNELS, row_pixel = row / POINTS;
        float gradient = 0.0f;
        if (row_pixel < TILE_PIXELS && (long long)tile * TILE_PIXELS + row_pixel < PIXELS) {
            const float* pair = mean_gradients + 2 * (row_pixel * CHANNELS + channel);
#if FOOTPRINT
            gradient = row % POINTS < GROUP_0_POINTS ? pair[0] / float(GROUP_0_POINTS)
                                                     : pair[1] / float(POINTS - GROUP_0_POINTS);
#else
            gradient = pair[0];
#endif
            gradient *= float(GRADIENT_SCALE) * output_derivative(values[thread]);
        }
        gradients[thread] = gradient;
    }
}

// Returns the sum of `value` over the block, in a fixed order; all threads get it.
__device__ __forceinline__ double block_sum(double value, double* scratch) {
    __syncthreads();
    scratch[threadIdx.x] = value;
    for (int half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (int(threadIdx.x) < half) scratch[threadIdx.x] += scratch[threadIdx.x + half];
    }
    __syncthreads();
    return scratch[0];
}

// Block b has tiles b, b + blocks, ... of a chunk. The arrays of activations begin with the chunk's
// first tile, which is number first_tile of the batch; tiles beyond the batch have gradient 0.
//
// kept: numbers that the layer before kept for its derivatives; gradients: d loss / d z of that
// layer (null for a network of one layer). partials of block b: weight (width, CHANNELS), then bias
// (CHANNELS,). loss_partials of block b: its part of the mean loss and the mean squared error.
// Grid: (blocks,).
extern "C" __global__ __launch_bounds__(THREADS, 2) void output_layer(
    const element* activations, const element* kept, int width, const float* weight,
    const float* bias, int fan_in, const float* targets, const float* slot_weights, int first_tile,
    int tiles, element* gradients, float* partials, double* loss_partials, int accumulate) {
    __shared__ OutputWeights layer;
    __shared__ float values[VALUES], output_gradients[VALUES], mean_gradients[2 * VALUES];
    __shared__ double scratch[THREADS * GROUP / 2];
    layer.read(weight, bias, fan_in, width);
    __syncthreads();

    const ColumnGroup at(width);
    float sums[CHANNELS][GROUP] = {}, gradient_sum = 0.0f;
    double loss = 0.0, squared_error = 0.0;
    for (int tile = int(blockIdx.x); tile < tiles; tile += int(gridDim.x)) {
        const size_t first_row = size_t(tile) * TILE_ROWS;
        output_product(activations + first_row * width, width, layer, values);
        __syncthreads();
        if (threadIdx.x < VALUES) values[threadIdx.x] = output_value(values[threadIdx.x]);
        __syncthreads();
        loss_and_gradients(values, output_gradients, mean_gradients, first_tile + tile, targets,
                           slot_weights, loss, squared_error);
        __syncthreads();
        if (threadIdx.x < 32 * CHANNELS) {  // a warp for each channel
            const int channel = int(threadIdx.x) / 32, row = int(threadIdx.x) % 32;
            gradient_sum += output_gradients[row * CHANNELS + channel] +
                            output_gradients[(row + 32) * CHANNELS + channel];
        }
        if (at.active)
#pragma unroll 2
            for (int row = at.first_row; row < TILE_ROWS; row += at.row_step) {
                const size_t index = (first_row + row) * width + at.column;
                float group[GROUP], before[GROUP] = {};
                load_group(activations + index, group);
#pragma unroll
                for (int c = 0; c < CHANNELS; ++c) {
                    const float gradient = output_gradients[row * CHANNELS + c];
#pragma unroll
                    for (int i = 0; i < GROUP; ++i) {
                        sums[c][i] = fmaf(group[i], gradient, sums[c][i]);
                        before[i] = fmaf(layer.weight[c][at.column + i], gradient, before[i]);
                    }
                }
                if (gradients) {
#if ACTIVATION == PRODUCT
                    const size_t first = (first_row + row) * width * FACTORS + at.column;
                    put_gradients_of_factors(before, kept + first, gradients + first, width);
#else
                    float state[GROUP];
                    load_group(kept + index, state);
                    differentiate(before, state, group);
                    store_group(gradients + index, before);
#endif
                }
            }
    }

    float* part = partials + size_t(blockIdx.x) * (width + 1) * CHANNELS;
#pragma unroll
    for (int c = 0; c < CHANNELS; ++c)
        write_column_sums(at, width, sums[c], reinterpret_cast<float*>(scratch), part + c, CHANNELS,
                          accumulate);
    if (threadIdx.x < 32 * CHANNELS) {
        for (int distance = 16; distance > 0; distance /= 2)
            gradient_sum += __shfl_xor_sync(0xffffffffu, gradient_sum, distance);
        if (threadIdx.x % 32 == 0) {
            float* target = part + width * CHANNELS + threadIdx.x / 32;
            *target = accumulate ? *target + gradient_sum : gradient_sum;
        }
    }
    const double count = double(PIXELS) * CHANNELS;
    const double block_loss = block_sum(loss, scratch) / count;
    const double block_error = block_sum(squared_error, scratch) / count;
    if (threadIdx.x == 0) {
        double* target = loss_partials + 2 * blockIdx.x;
        target[0] = accumulate ? target[0] + block_loss : block_loss;
        target[1] = accumulate ? target[1] + block_error : block_error;
    }
}
