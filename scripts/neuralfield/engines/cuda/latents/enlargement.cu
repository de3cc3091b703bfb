// Enlargement of grids by 2 with symmetric filters of four taps, and its gradients.
// Reference: `LatentNetwork.pixels`; the filters are explained in `CodedImage`.
//
// A thread treats one cell of a coarser grid: the 2 x 2 values that lie in it, or, backward, the sum
// over the 8 x 8 values that it is part of. Places outside a grid are those of its ends.
//
// Constants: INPUT_SCALE.

#include <cuda_fp16.h>

#include "grids.cuh"

#define THREADS 256

// The work of a level: grids from `level` + 1 on, from the size of grid `level` + 1 to the next.
// Copies of grids of one size follow each other, the finest grid first, which has that size itself.
struct Level {
    long long rows, columns;  // of the coarser size
    long long high, wide;     // of the finer
    long long from, to;       // starts of the copies of both sizes
};

__device__ __forceinline__ void load_taps(float (&taps)[4], const float* filters, int level) {
#pragma unroll
    for (int i = 0; i < 4; ++i) taps[i] = filters[4 * level + i];
}

// Computes the values 2 i and 2 i + 1 of a line, where `v` has five values around place i.
__device__ __forceinline__ void enlarge_pair(const float (&v)[5], const float (&taps)[4],
                                             float& even, float& odd) {
    even = taps[0] * v[0] + taps[1] * v[1] + taps[2] * v[2] + taps[3] * v[3];
    odd = taps[3] * v[1] + taps[2] * v[2] + taps[1] * v[3] + taps[0] * v[4];
}

// Computes the 2 x 2 values of a cell.
__device__ __forceinline__ void enlarge_cell(const float* source, int rows, int columns, int i,
                                             int j, const float (&taps)[4],
                                             float (&found)[2][2]) {
    float even[5], odd[5];
#pragma unroll
    for (int b = 0; b < 5; ++b) {
        const int column = min(max(j + b - 2, 0), columns - 1);
        float v[5];
#pragma unroll
        for (int a = 0; a < 5; ++a)
            v[a] = source[min(max(i + a - 2, 0), rows - 1) * (long long)columns + column];
        enlarge_pair(v, taps, even[b], odd[b]);
    }
    enlarge_pair(even, taps, found[0][0], found[0][1]);
    enlarge_pair(odd, taps, found[1][0], found[1][1]);
}

// Enlarges all grids from `level` + 1 on by one level. Grid: (blocks of cells, grids).
extern "C" __global__ void __launch_bounds__(THREADS)
    enlarge(const Level* __restrict__ levels, int level, const float* __restrict__ filters,
            float* copies) {
    const Level& of = levels[level];
    const int columns = int(of.columns), rows = int(of.rows);
    const long long cell = (long long)blockIdx.x * THREADS + threadIdx.x;
    if (cell >= (long long)rows * columns) return;
    const int i = int(cell / columns), j = int(cell - (long long)i * columns);
    float taps[4], found[2][2];
    load_taps(taps, filters, level);
    enlarge_cell(copies + of.from + blockIdx.y * of.rows * of.columns, rows, columns, i, j, taps,
                 found);
    float* const target = copies + of.to + (blockIdx.y + 1) * of.high * of.wide;
#pragma unroll
    for (int a = 0; a < 2; ++a)
#pragma unroll
        for (int b = 0; b < 2; ++b)
            if (2 * i + a < of.high && 2 * j + b < of.wide)
                target[(2 * i + a) * of.wide + 2 * j + b] = found[a][b];
}

__device__ const int around[AROUND_COUNT][3] = AROUND;

// Computes the sums of latents around 2 x 2 pixels of the finest grid, where places outside are those
// of its ends, or the latents of the pixels, if `number` is negative.
__device__ __forceinline__ void sum_surroundings(const float* source, long long stride, int high,
                                                 int wide, int i, int j, int number,
                                                 float (&found)[2][2]) {
#pragma unroll
    for (int a = 0; a < 2; ++a)
#pragma unroll
        for (int b = 0; b < 2; ++b) {
            const int y = min(2 * i + a, high - 1), x = min(2 * j + b, wide - 1);
            found[a][b] = number < 0 ? source[y * stride + x] : 0.0f;
#pragma unroll
            for (int n = 0; n < AROUND_COUNT; ++n)
                if (around[n][0] == number)
                    found[a][b] += source[min(max(y + around[n][1], 0), high - 1) * stride +
                                          min(max(x + around[n][2], 0), wide - 1)];
        }
}

// Computes pairs of inputs of the synthesis. Grid: (blocks of cells, pairs).
extern "C" __global__ void __launch_bounds__(THREADS)
    enlarge_last(const Level* __restrict__ levels, const Grid* __restrict__ grids,
                 const float* __restrict__ filters, const float* __restrict__ latents,
                 const float* __restrict__ copies, __half2* __restrict__ enlarged) {
    const Level& of = levels[0];
    const int columns = int(of.columns), rows = int(of.rows);
    const int wide = int(of.wide), high = int(of.high), pair = blockIdx.y;
    const long long cell = (long long)blockIdx.x * THREADS + threadIdx.x;
    if (cell >= (long long)rows * columns) return;
    const int i = int(cell / columns), j = int(cell - (long long)i * columns);
    float taps[4], found[2][2][2];
    load_taps(taps, filters, 0);
#pragma unroll
    for (int part = 0; part < 2; ++part) {
        const int k = 2 * pair + part;
        if (k >= PIXEL_INPUTS) {
            const float value = k == PIXEL_INPUTS ? 1.0f : 0.0f;
            found[part][0][0] = found[part][0][1] = found[part][1][0] = found[part][1][1] = value;
            continue;
        }
        const float* const finest = latents + grids[0].start;
        const long long stride = grids[0].stride;
        if (k == 0 || k >= GRIDS)
            sum_surroundings(finest, stride, high, wide, i, j, k == 0 ? -1 : k - GRIDS, found[part]);
        else
            enlarge_cell(copies + of.from + (k - 1) * of.rows * of.columns, rows, columns, i, j,
                         taps, found[part]);
#pragma unroll
        for (int a = 0; a < 2; ++a)
#pragma unroll
            for (int b = 0; b < 2; ++b) found[part][a][b] *= INPUT_SCALE;
    }
    __half2* const target = enlarged + (long long)pair * high * wide;
#pragma unroll
    for (int a = 0; a < 2; ++a)
#pragma unroll
        for (int b = 0; b < 2; ++b)
            if (2 * i + a < high && 2 * j + b < wide)
                target[(long long)(2 * i + a) * wide + 2 * j + b] =
                    __floats2half2_rn(found[0][a][b], found[1][a][b]);
}

// Gradients of 8 x 8 values around a cell, from those at 2 i - 3 and 2 j - 3 on.
struct Window {
    int first_row, first_column, high, wide;
    bool is_top, is_bottom, is_left, is_right;  // at an end, where places outside count, too
};

// The tap that multiplies a cell for the value with a number from 0 to 7, which is value 2 i - 3 of a
// line and so on; for places before or after the cell, the tap is that of another number.
__device__ constexpr int tap_of[8] = {0, 3, 1, 2, 2, 1, 3, 0};

// Adds a value to the sums of the taps that it is part of.
__device__ __forceinline__ void add_by_tap(float (&by_tap)[4], int number, float value,
                                           bool is_first, bool is_last) {
    by_tap[tap_of[number]] += value;
#pragma unroll
    for (int beyond = 2; beyond <= 4; beyond += 2) {
        if (number + beyond < 8 && is_first) by_tap[tap_of[number + beyond]] += value;
        if (number - beyond >= 0 && is_last) by_tap[tap_of[number - beyond]] += value;
    }
}

// Computes a cell's gradient and, without its value, those of the taps. `load(y, x)` returns the
// gradient at a place.
template <typename Load>
__device__ __forceinline__ float reduce_cell(const Window& window, const float (&taps)[4],
                                             float (&of_taps)[4], const Load& load) {
    float gradient = 0.0f;
#pragma unroll
    for (int a = 0; a < 8; ++a) {
        const int y = window.first_row + a;
        const bool is_row = y >= 0 && y < window.high;
        float by_tap[4] = {0.0f, 0.0f, 0.0f, 0.0f}, row = 0.0f;
#pragma unroll
        for (int b = 0; b < 8; ++b) {
            const int x = window.first_column + b;
            const float value = is_row && x >= 0 && x < window.wide ? load(y, x) : 0.0f;
            add_by_tap(by_tap, b, value, window.is_left, window.is_right);
        }
        float of_row[4] = {0.0f, 0.0f, 0.0f, 0.0f}, factor = 0.0f;
        add_by_tap(of_row, a, 1.0f, window.is_top, window.is_bottom);
#pragma unroll
        for (int m = 0; m < 4; ++m) {
            factor += of_row[m] * taps[m];
            row += taps[m] * by_tap[m];
        }
#pragma unroll
        for (int m = 0; m < 4; ++m) of_taps[m] += factor * by_tap[m] + of_row[m] * row;
        gradient += factor * row;
    }
    return gradient;
}

// Computes the gradients of all grids from `level` + 1 on at the coarser size, and those of the
// level's taps. Grid: (blocks of cells, grids).
extern "C" __global__ void __launch_bounds__(THREADS)
    reduce(const Level* __restrict__ levels, int level, const float* __restrict__ filters,
           const float* __restrict__ copies, const __half* __restrict__ of_pixels,
           float* of_copies, float* __restrict__ partials) {
    const Level& of = levels[level];
    const int columns = int(of.columns), rows = int(of.rows);
    const long long cell = (long long)blockIdx.x * THREADS + threadIdx.x;
    float of_taps[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    if (cell < (long long)rows * columns) {
        const int i = int(cell / columns), j = int(cell - (long long)i * columns);
        float taps[4], gradient;
        load_taps(taps, filters, level);
        const int high = int(of.high), wide = int(of.wide);
        const Window window = {2 * i - 3, 2 * j - 3, high,  wide,
                               i == 0,    i == rows - 1, j == 0, j == columns - 1};
        if (level == 0) {
            const int k = blockIdx.y + 1;
            const __half* const values = of_pixels + 2LL * (k / 2) * high * wide + k % 2;
            gradient = reduce_cell(window, taps, of_taps, [&](int y, int x) {
                return __half2float(values[2 * (y * (long long)wide + x)]);
            });
        } else {
            const float* const values = of_copies + of.to + (blockIdx.y + 1) * of.high * of.wide;
            gradient = reduce_cell(window, taps, of_taps,
                                   [&](int y, int x) { return values[y * of.wide + x]; });
        }
        const long long place = of.from + blockIdx.y * of.rows * of.columns + cell;
#pragma unroll
        for (int m = 0; m < 4; ++m) of_taps[m] *= copies[place];
        of_copies[place] = gradient;
    }
    __shared__ float of_warps[THREADS / 32][4];
#pragma unroll
    for (int m = 0; m < 4; ++m) {
        for (int distance = 16; distance > 0; distance /= 2)
            of_taps[m] += __shfl_xor_sync(~0u, of_taps[m], distance);
        if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32][m] = of_taps[m];
    }
    __syncthreads();
    if (threadIdx.x < 4) {
        float sum = 0.0f;
        for (int warp = 0; warp < THREADS / 32; ++warp) sum += of_warps[warp][threadIdx.x];
        partials[(blockIdx.y * gridDim.x + blockIdx.x) * 4 + threadIdx.x] = sum;
    }
}
