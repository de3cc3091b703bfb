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

// A grid that is enlarged, or its gradients, at one size.
struct Plane {
    long long start;   // in the array of latents if `is_own`, else in that of copies
    long long stride;  // of rows
    long long is_own;
};

// The work of a level: grids from `level` + 1 on, from the size of grid `level` + 1 to the next.
struct Level {
    long long rows, columns;  // of the coarser size
    long long high, wide;     // of the finer
    Plane from[GRIDS], to[GRIDS];
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
__device__ __forceinline__ void enlarge_cell(const float* source, long long stride, int rows,
                                             int columns, int i, int j, const float (&taps)[4],
                                             float (&found)[2][2]) {
    float even[5], odd[5];
#pragma unroll
    for (int b = 0; b < 5; ++b) {
        const int column = min(max(j + b - 2, 0), columns - 1);
        float v[5];
#pragma unroll
        for (int a = 0; a < 5; ++a)
            v[a] = source[min(max(i + a - 2, 0), rows - 1) * stride + column];
        enlarge_pair(v, taps, even[b], odd[b]);
    }
    enlarge_pair(even, taps, found[0][0], found[0][1]);
    enlarge_pair(odd, taps, found[1][0], found[1][1]);
}

// Enlarges all grids from `level` + 1 on by one level. Grid: (blocks of cells, grids).
extern "C" __global__ void __launch_bounds__(THREADS)
    enlarge(const Level* __restrict__ levels, int level, const float* __restrict__ filters,
            const float* __restrict__ latents, float* copies) {
    const Level& of = levels[level];
    const int k = level + 1 + blockIdx.y, columns = int(of.columns), rows = int(of.rows);
    const long long cell = (long long)blockIdx.x * THREADS + threadIdx.x;
    if (cell >= (long long)rows * columns) return;
    const int i = int(cell / columns), j = int(cell - (long long)i * columns);
    float taps[4], found[2][2];
    load_taps(taps, filters, level);
    const Plane from = of.from[k], to = of.to[k];
    enlarge_cell((from.is_own ? latents : copies) + from.start, from.stride, rows, columns, i, j,
                 taps, found);
#pragma unroll
    for (int a = 0; a < 2; ++a)
#pragma unroll
        for (int b = 0; b < 2; ++b)
            if (2 * i + a < of.high && 2 * j + b < of.wide)
                copies[to.start + (2 * i + a) * to.stride + 2 * j + b] = found[a][b];
}

// Enlarges pairs of grids to the size of the image, as inputs of the synthesis. Grid: (blocks of
// cells, pairs).
extern "C" __global__ void __launch_bounds__(THREADS)
    enlarge_last(const Level* __restrict__ levels, const float* __restrict__ filters,
                 const float* __restrict__ latents, const float* __restrict__ copies,
                 __half2* __restrict__ enlarged) {
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
        if (k >= GRIDS) {
            const float value = k == GRIDS ? 1.0f : 0.0f;
            found[part][0][0] = found[part][0][1] = found[part][1][0] = found[part][1][1] = value;
            continue;
        }
        const Plane from = of.from[k];
        const float* const source = (from.is_own ? latents : copies) + from.start;
        if (k == 0) {
#pragma unroll
            for (int a = 0; a < 2; ++a)
#pragma unroll
                for (int b = 0; b < 2; ++b)
                    found[part][a][b] = source[min(2 * i + a, high - 1) * from.stride +
                                               min(2 * j + b, wide - 1)];
        } else {
            enlarge_cell(source, from.stride, rows, columns, i, j, taps, found[part]);
        }
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

// The gradients of a grid at the finer size of a level.
struct Gradients {
    const float* values;
    long long stride;
    int step;  // between columns
    int high, wide;

    __device__ __forceinline__ float at(int y, int x) const {
        if (y < 0 || y >= high || x < 0 || x >= wide) return 0.0f;
        return values[y * stride + (long long)x * step];
    }
};

// Adds what cell (i, j), which may lie outside of the grid, contributes to its gradient and, without
// its value, to those of the taps.
__device__ __forceinline__ void add_cell(const Gradients& of, int i, int j, const float (&taps)[4],
                                         float& gradient, float (&of_taps)[4]) {
    constexpr int tap_of[8] = {0, 3, 1, 2, 2, 1, 3, 0};  // of the values from 2 i - 3 to 2 i + 4
#pragma unroll
    for (int a = 0; a < 8; ++a) {
        float by_tap[4] = {0.0f, 0.0f, 0.0f, 0.0f}, row = 0.0f;
#pragma unroll
        for (int b = 0; b < 8; ++b) by_tap[tap_of[b]] += of.at(2 * i - 3 + a, 2 * j - 3 + b);
#pragma unroll
        for (int m = 0; m < 4; ++m) {
            row += taps[m] * by_tap[m];
            of_taps[m] += taps[tap_of[a]] * by_tap[m];
        }
        of_taps[tap_of[a]] += row;
        gradient += taps[tap_of[a]] * row;
    }
}

// Computes the gradients of all grids from `level` + 1 on at the coarser size, and those of the
// level's taps. Grid: (blocks of cells, grids).
extern "C" __global__ void __launch_bounds__(THREADS)
    reduce(const Level* __restrict__ levels, int level, const float* __restrict__ filters,
           const float* __restrict__ latents, const float* __restrict__ copies,
           const float* __restrict__ of_pixels, float* of_copies,
           float* __restrict__ of_latents, const Grid* __restrict__ grids,
           float* __restrict__ partials) {
    const Level& of = levels[level];
    const int k = level + 1 + blockIdx.y, columns = int(of.columns), rows = int(of.rows);
    const long long cell = (long long)blockIdx.x * THREADS + threadIdx.x;
    float of_taps[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    if (cell < (long long)rows * columns) {
        const int i = int(cell / columns), j = int(cell - (long long)i * columns);
        float taps[4], gradient = 0.0f;
        load_taps(taps, filters, level);
        const Plane from = of.from[k], to = of.to[k];
        const int high = int(of.high), wide = int(of.wide);
        Gradients given = {of_copies + to.start, to.stride, 1, high, wide};
        if (level == 0)
            given = {of_pixels + 2LL * (k / 2) * high * wide + k % 2, 2LL * wide, 2, high, wide};
        for (int u = i == 0 ? -2 : i; u <= (i == rows - 1 ? rows + 1 : i); ++u)
            for (int v = j == 0 ? -2 : j; v <= (j == columns - 1 ? columns + 1 : j); ++v)
                add_cell(given, u, v, taps, gradient, of_taps);
        const float value =
            ((from.is_own ? latents : copies) + from.start)[i * from.stride + j];
#pragma unroll
        for (int m = 0; m < 4; ++m) of_taps[m] *= value;
        if (from.is_own)
            of_latents[grids[k].parameter + cell] = gradient;
        else
            of_copies[from.start + cell] = gradient;
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
