// The gradient of a hash grid for any points. Reference implementation: fields/hashgrid.py.
//
// Threads add to the same rows in any order, but the sums do not depend on the order: contributions
// are rounded to whole multiples of 1 / UNITS, and sums of whole numbers are exact.
//
// Constants: UNITS (a power of two), LARGEST (limit of a gradient: UNITS * LARGEST * rows is below
// 2^63), and those of grid_corners.cuh.
#include "grid_corners.cuh"

// Returns the size, 1, 2, 4, ... or 32, of the largest aligned group of lanes around this lane
// whose points are all in one cell, as consecutive points often are.
__device__ __forceinline__ int lanes_of_cell(Near x, Near y) {
    int lanes = 1;
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
        const int other_x = __shfl_xor_sync(~0u, x.corner, distance);
        const int other_y = __shfl_xor_sync(~0u, y.corner, distance);
        const int other_lanes = __shfl_xor_sync(~0u, lanes, distance);
        if (lanes == distance && other_lanes == distance && x.corner == other_x &&
            y.corner == other_y)
            lanes = 2 * distance;
    }
    return lanes;
}

// Adds the points' contributions to the sums. Grid: (rows / THREADS, LEVELS).
extern "C" __global__ __launch_bounds__(THREADS) void grid_add_points(const float2* inputs,
                                                                      int valid_rows,
                                                                      const element* gradients,
                                                                      long long* sums) {
    const int row = int(blockIdx.x * blockDim.x + threadIdx.x);
    const float2 point = inputs[min(row, valid_rows - 1)];
    const GridLevel level = grid_levels[blockIdx.y];
    const Near x = near_corner(point.x, level.resolution);
    const Near y = near_corner(point.y, level.resolution);
    const Corners corners(level, x, y);
    Features gradient = {};
    if (row < valid_rows) gradient = load_features(gradients, row, int(blockIdx.y));
    long long shares[4][FEATURES];
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < FEATURES; ++j) {
            const float number = fminf(fmaxf(gradient.numbers[j], -float(LARGEST)), float(LARGEST));
            shares[i][j] = __float2ll_rn(corners.weights[i] * number * float(UNITS));
        }
    // lanes whose points are in one cell first add up their contributions among themselves
    const int lanes = lanes_of_cell(x, y);
    for (int distance = 1; __any_sync(~0u, lanes > distance); distance *= 2)
#pragma unroll
        for (int i = 0; i < 4; ++i)
#pragma unroll
            for (int j = 0; j < FEATURES; ++j) {
                const long long other = __shfl_xor_sync(~0u, shares[i][j], distance);
                if (lanes > distance) shares[i][j] += other;
            }
    if (threadIdx.x % lanes) return;
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < FEATURES; ++j)
            if (shares[i][j])
                atomicAdd(reinterpret_cast<unsigned long long*>(sums) +
                              (long long)corners.rows[i] * FEATURES + j,
                          (unsigned long long)shares[i][j]);
}

// Converts the sums to float32, and sets them to zero. Grid: (count / THREADS,).
extern "C" __global__ __launch_bounds__(THREADS) void grid_take_sums(long long* sums,
                                                                     float* gradient, int count) {
    const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
    if (i >= count) return;
    gradient[i] = float(double(sums[i]) * (1.0 / UNITS));
    sums[i] = 0;
}
