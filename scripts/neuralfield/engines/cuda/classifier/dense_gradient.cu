// Gradients of all linear layers: products of a layer's inputs with the gradients of its outputs,
// summed over a share of the images; each share is one part. Reference implementation: nn/ops.py
// (affine).
//
// Biases are an additional row of the weights, whose inputs are ones. A block computes a tile of 32
// rows and 64 columns, and a thread computes 2 x 4 sums of it.
//
// Constants: those of dense_head.cuh; SHARE (images of a block).
#include "dense_head.cuh"

#define TILE_ROWS 32
#define TILE_COLUMNS 64
#define DEPTH 32
#define THREADS 256

__host__ __device__ constexpr int tiles_across(int layer) {
    return (LAYER_SIZES[layer + 1] + TILE_COLUMNS - 1) / TILE_COLUMNS;
}

__host__ __device__ constexpr int tiles_of(int layer) {
    return (LAYER_SIZES[layer] + 1 + TILE_ROWS - 1) / TILE_ROWS * tiles_across(layer);
}

template <int LAYER>
__device__ void gradient_of(int tile, const float* __restrict__ flat,
                            const float* __restrict__ hidden, const float* __restrict__ gradients,
                            float* __restrict__ parts) {
    constexpr int IN = LAYER_SIZES[LAYER], OUT = LAYER_SIZES[LAYER + 1];
    __shared__ __align__(16) float some_values[DEPTH][TILE_ROWS];
    __shared__ __align__(16) float some_gradients[DEPTH][TILE_COLUMNS];
    const int first_row = tile / tiles_across(LAYER) * TILE_ROWS;
    const int first_column = tile % tiles_across(LAYER) * TILE_COLUMNS;
    const float* __restrict__ values =
        LAYER == 0 ? flat : hidden + array_of_layer(LAYER) - array_of_layer(1);
    const float* __restrict__ its_gradients =
        gradients + array_of_layer(LAYER + 1) - array_of_layer(1);
    const int row = threadIdx.x / 16 * 2, column = threadIdx.x % 16 * 4;
    const int start = blockIdx.y * SHARE, end = min(BATCH, start + SHARE);
    float sums[2][4] = {};
    for (int first = start; first < end; first += DEPTH) {
        if (first > start) __syncthreads();
#pragma unroll
        for (int i = threadIdx.x; i < DEPTH * TILE_ROWS; i += THREADS) {
            const int image = first + i / TILE_ROWS, in = first_row + i % TILE_ROWS;
            float value = in == IN ? 1.0f : 0.0f;
            if (in < IN && image < end) value = values[(long long)image * IN + in];
            some_values[i / TILE_ROWS][i % TILE_ROWS] = value;
        }
#pragma unroll
        for (int i = threadIdx.x; i < DEPTH * TILE_COLUMNS; i += THREADS) {
            const int image = first + i / TILE_COLUMNS, out = first_column + i % TILE_COLUMNS;
            const bool is_there = out < OUT && image < end;
            some_gradients[i / TILE_COLUMNS][i % TILE_COLUMNS] =
                is_there ? its_gradients[(long long)image * OUT + out] : 0.0f;
        }
        __syncthreads();
#pragma unroll
        for (int depth = 0; depth < DEPTH; ++depth) {
            const float2 value = *(const float2*)&some_values[depth][row];
            const float4 gradient = *(const float4*)&some_gradients[depth][column];
            const float two[2] = {value.x, value.y};
            const float four[4] = {gradient.x, gradient.y, gradient.z, gradient.w};
#pragma unroll
            for (int i = 0; i < 2; ++i)
#pragma unroll
                for (int j = 0; j < 4; ++j) sums[i][j] += two[i] * four[j];
        }
    }
    float* const part = parts + (long long)blockIdx.y * parts_before(LAYERS) + parts_before(LAYER);
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const int in = first_row + row + i, out = first_column + column + j;
            if (in <= IN && out < OUT) part[in * OUT + out] = sums[i][j];
        }
}

template <int LAYER>
__device__ void gradient_of_layer(int tile, const float* flat, const float* hidden,
                                  const float* gradients, float* parts) {
    if (tile < tiles_of(LAYER)) {
        gradient_of<LAYER>(tile, flat, hidden, gradients, parts);
    } else if constexpr (LAYER + 1 < LAYERS) {
        gradient_of_layer<LAYER + 1>(tile - tiles_of(LAYER), flat, hidden, gradients, parts);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    dense_gradient(const float* __restrict__ flat, const float* __restrict__ hidden,
                   const float* __restrict__ gradients, float* __restrict__ parts) {
    gradient_of_layer<0>(blockIdx.x, flat, hidden, gradients, parts);
}
