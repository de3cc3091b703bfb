// Hash grids: the rows of the table that a point is interpolated from, and the memory layout of
// features of points and of their gradients.
//
// Constants: LEVELS, GRID_LEVELS (structs GridLevel), FEATURES (numbers in a row of the table),
// MIXED. Number `column` of row `row` is at row * ROW_STRIDE + column / 2 * PAIR_STRIDE + column %
// 2; both strides are even.
#pragma once
#include "../element.cuh"

struct GridLevel {
    int resolution, start, rows;  // see fields/hashgrid.py
    unsigned int mask;            // rows - 1 if corners share rows, else 0
    int columns, origin;          // if mask is 0: corners of a line, and the row (0, 0) would have
};

__constant__ GridLevel grid_levels[LEVELS] = GRID_LEVELS;

struct __align__(FEATURES % 4 == 0 ? 16 : FEATURES % 2 == 0 ? 8 : 4) Features {
    float numbers[FEATURES];
};

// For one axis: the corner of a point's cell that is nearest to the origin, and the point's
// distance from it, in cells. Each operation is rounded, as in NumPy.
struct Near {
    int corner;
    float part;
};

__device__ __forceinline__ Near near_corner(float coordinate, int resolution) {
    const float unit = __fmul_rn(__fadd_rn(coordinate, 1.0f), 0.5f);
    const float position = __fmul_rn(unit, float(resolution));
    // adding 2 ** 23 rounds the position down to a whole number, which is then in the last bits of
    // the sum: this is faster than floorf and a conversion
    const int zero = 0x4B000000;
    const float whole = __fadd_rd(fmaxf(position, 0.0f), __int_as_float(zero));
    // a point on the far edge belongs to the last cell
    const float corner = fminf(whole, __int_as_float(zero + resolution - 1));
    return {__float_as_int(corner) - zero,
            __fsub_rn(position, __fsub_rn(corner, __int_as_float(zero)))};
}

__device__ __forceinline__ int table_row(const GridLevel& level, int column, int line) {
    const unsigned int hash = unsigned(column) ^ unsigned(line) * HASH_PRIME;
    return level.mask ? level.start + int(hash & level.mask)
                      : level.origin + line * level.columns + column;
}

// The rows of the table at the corners of a point's cell, and their weights, which add up to 1.
struct Corners {
    int rows[4];
    float weights[4];

    __device__ __forceinline__ Corners(const GridLevel& level, Near x, Near y) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            rows[i] = table_row(level, x.corner + i % 2, y.corner + i / 2);
            weights[i] = (i / 2 ? y.part : 1.0f - y.part) * (i % 2 ? x.part : 1.0f - x.part);
        }
    }
};

__device__ __forceinline__ size_t place_of(int row, int column) {
    return size_t(row) * ROW_STRIDE + size_t(column / 2) * PAIR_STRIDE + column % 2;
}

// Loads the features of a row at one level.
__device__ __forceinline__ Features load_features(const element* from, int row, int level) {
    Features loaded;
#if FEATURES % 2
    for (int i = 0; i < FEATURES; ++i)
        loaded.numbers[i] = float(from[place_of(row, level * FEATURES + i)]);
#else
#pragma unroll
    for (int i = 0; i < FEATURES; i += 2) {
        const element* place = from + place_of(row, level * FEATURES + i);
#if MIXED
        const float2 pair = __half22float2(*reinterpret_cast<const __half2*>(place));
#else
        const float2 pair = *reinterpret_cast<const float2*>(place);
#endif
        loaded.numbers[i] = pair.x;
        loaded.numbers[i + 1] = pair.y;
    }
#endif
    return loaded;
}

__device__ __forceinline__ void store_features(element* to, int row, int level,
                                               const Features& features) {
    const float* numbers = features.numbers;
#if FEATURES % 2
    for (int i = 0; i < FEATURES; ++i)
        to[place_of(row, level * FEATURES + i)] = to_element(numbers[i]);
#else
#pragma unroll
    for (int i = 0; i < FEATURES; i += 2) {
        element* place = to + place_of(row, level * FEATURES + i);
#if MIXED
        *reinterpret_cast<__half2*>(place) = saturated(numbers[i], numbers[i + 1]);
#else
        *reinterpret_cast<float2*>(place) = make_float2(numbers[i], numbers[i + 1]);
#endif
    }
#endif
}

__device__ __forceinline__ void add_weighted(Features& sum, float weight,
                                             const Features& features) {
#pragma unroll
    for (int i = 0; i < FEATURES; ++i)
        sum.numbers[i] = fmaf(weight, features.numbers[i], sum.numbers[i]);
}
