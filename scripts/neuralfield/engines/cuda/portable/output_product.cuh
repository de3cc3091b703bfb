// The last layer, with few channels and many activations; a block's 8 warps compute 64 rows of it.
//
// Constants: CHANNELS (1 to 4), MIXED.
#pragma once

#include "../element.cuh"

#define TILE_ROWS 64
#define MAX_WIDTH 512

// Weights in shared memory, channel by channel, zero beyond fan_in.
struct OutputWeights {
    float weight[CHANNELS][MAX_WIDTH];
    float bias[CHANNELS];

    __device__ __forceinline__ void read(const float* from_weight, const float* from_bias,
                                         int fan_in, int width) {
        for (int i = int(threadIdx.x); i < width * CHANNELS; i += THREADS) {
            const int k = i / CHANNELS, channel = i % CHANNELS;
            weight[channel][k] = k < fan_in ? from_weight[i] : 0.0f;
        }
        if (threadIdx.x < CHANNELS) bias[threadIdx.x] = from_bias ? from_bias[threadIdx.x] : 0.0f;
    }
};

// z = activations weight + bias for 64 rows of `width` activations, into z[row * CHANNELS + c].
__device__ __forceinline__ void output_product(const element* activations, int width,
                                               const OutputWeights& layer, float* z) {
    constexpr int WARP_ROWS = TILE_ROWS / (THREADS / 32);
    const int lane = int(threadIdx.x) % 32, first_row = int(threadIdx.x) / 32 * WARP_ROWS;
    float sums[WARP_ROWS][CHANNELS] = {};
    for (int k = lane * GROUP; k < width; k += 32 * GROUP)
#pragma unroll
        for (int i = 0; i < WARP_ROWS; ++i) {
            float group[GROUP];
            load_group(activations + size_t(first_row + i) * width + k, group);
#pragma unroll
            for (int c = 0; c < CHANNELS; ++c)
#pragma unroll
                for (int j = 0; j < GROUP; ++j)
                    sums[i][c] = fmaf(group[j], layer.weight[c][k + j], sums[i][c]);
        }
#pragma unroll
    for (int i = 0; i < WARP_ROWS; ++i)
#pragma unroll
        for (int c = 0; c < CHANNELS; ++c) {
            float sum = sums[i][c];
#pragma unroll
            for (int distance = 16; distance > 0; distance /= 2)
                sum += __shfl_xor_sync(0xffffffffu, sum, distance);
            if (lane == (i * CHANNELS + c) % 32)
                z[(first_row + i) * CHANNELS + c] = sum + layer.bias[c];
        }
}
