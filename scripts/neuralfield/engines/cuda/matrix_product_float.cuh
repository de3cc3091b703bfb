// A tile of a matrix product in float32, by 256 threads with 8 x 8 (or fewer) results each.
//
// All sizes are multiples of the tiles': callers pad. Reference implementation: numpy.matmul.
#pragma once

#include "element.cuh"

#define PRODUCT_THREADS 256

// Results (row, column) of A B for rows 0 .. ROWS - 1 and columns 0 .. COLUMNS - 1.
//
// A element (row, k) is a[row * a_stride + k], or a[k * a_stride + row] if A_TRANSPOSED;
// B element (k, column) is b[k * b_stride + column]; k runs from 0 to depth - 1.
// finish(row, column, values) receives GROUP neighbouring results; B_ORDERED has no effect here.
// With SUMS, threads below COLUMNS return the sum over k of B's column threadIdx.x, over every
// slice_step-th slice from first_slice on.
// With PARTS > 1, B consists of PARTS matrices, which are part_step columns apart, and finish
// receives values[PARTS][GROUP]: results at the same place of each product.
template <int ROWS, int COLUMNS, bool A_TRANSPOSED, bool B_ORDERED, bool SUMS, int PARTS = 1,
          typename Finish>
__device__ __forceinline__ float matrix_product(const float* __restrict__ a, size_t a_stride,
                                                const float* __restrict__ b, size_t b_stride,
                                                int depth, const Finish& finish,
                                                int first_slice = 0, int slice_step = 1,
                                                int part_step = 0) {
    static_assert(PARTS == 1 || (COLUMNS == 64 && !SUMS), "parts of 64 columns, and without sums");
    constexpr int ALL_COLUMNS = PARTS * COLUMNS;
    // depth of the slices in shared memory: times of 8 and 16 differ by up to a sixth (measured)
    constexpr int DEPTH = A_TRANSPOSED || PARTS > 4 ? 8 : 16;
    constexpr int A_SIZE = ROWS * DEPTH / 4, B_SIZE = ALL_COLUMNS * DEPTH / 4;
    constexpr int A_VECTORS = (A_SIZE + PRODUCT_THREADS - 1) / PRODUCT_THREADS;
    constexpr int B_VECTORS = (B_SIZE + PRODUCT_THREADS - 1) / PRODUCT_THREADS;
    constexpr int ROW_BLOCKS = ROWS / 64, COLUMN_BLOCKS = ALL_COLUMNS / 64;
    __shared__ __align__(16) float a_slice[2][DEPTH][ROWS + 4];
    __shared__ __align__(16) float b_slice[2][DEPTH][ALL_COLUMNS];
    const int thread = int(threadIdx.x);
    // a warp's 4 x 8 threads read whole lines of shared memory
    const int row = (thread / 64 * 4 + thread % 32 / 8) * 4;
    const int column = (thread / 32 % 2 * 8 + thread % 8) * 4;

    float4 next_a[A_VECTORS], next_b[B_VECTORS];
    auto fetch = [&](int slice) {
#pragma unroll
        for (int i = 0; i < A_VECTORS; ++i) {
            const int index = thread + i * PRODUCT_THREADS;
            if (A_SIZE % PRODUCT_THREADS && index >= A_SIZE) break;
            const size_t k0 = size_t(slice) * DEPTH;
            const float* source =
                A_TRANSPOSED
                    ? a + (k0 + index / (ROWS / 4)) * a_stride + index % (ROWS / 4) * 4
                    : a + size_t(index / (DEPTH / 4)) * a_stride + k0 + index % (DEPTH / 4) * 4;
            next_a[i] = *reinterpret_cast<const float4*>(source);
        }
#pragma unroll
        for (int i = 0; i < B_VECTORS; ++i) {
            const int index = thread + i * PRODUCT_THREADS;
            if (B_SIZE % PRODUCT_THREADS && index >= B_SIZE) break;
            const size_t k = size_t(slice) * DEPTH + index / (ALL_COLUMNS / 4);
            const int place = index % (ALL_COLUMNS / 4) * 4;
            const float* line = b + k * b_stride + place / COLUMNS * part_step;
            next_b[i] = *reinterpret_cast<const float4*>(line + place % COLUMNS);
        }
    };
    auto put = [&](int stage) {
#pragma unroll
        for (int i = 0; i < A_VECTORS; ++i) {
            const int index = thread + i * PRODUCT_THREADS;
            if (A_SIZE % PRODUCT_THREADS && index >= A_SIZE) break;
            if (A_TRANSPOSED) {
                *reinterpret_cast<float4*>(
                    &a_slice[stage][index / (ROWS / 4)][index % (ROWS / 4) * 4]) = next_a[i];
            } else {
                const int k = index % (DEPTH / 4) * 4, r = index / (DEPTH / 4);
                a_slice[stage][k][r] = next_a[i].x;
                a_slice[stage][k + 1][r] = next_a[i].y;
                a_slice[stage][k + 2][r] = next_a[i].z;
                a_slice[stage][k + 3][r] = next_a[i].w;
            }
        }
#pragma unroll
        for (int i = 0; i < B_VECTORS; ++i) {
            const int index = thread + i * PRODUCT_THREADS;
            if (B_SIZE % PRODUCT_THREADS && index >= B_SIZE) break;
            *reinterpret_cast<float4*>(
                &b_slice[stage][index / (ALL_COLUMNS / 4)][index % (ALL_COLUMNS / 4) * 4]) =
                next_b[i];
        }
    };

    float sum[ROW_BLOCKS * 4][COLUMN_BLOCKS * 4] = {};
    float column_sum = 0.0f;
    int next_summed = first_slice;
    const int slices = depth / DEPTH;
    if (slices > 0) {
        fetch(0);
        put(0);
    }
    __syncthreads();
    for (int slice = 0; slice < slices; ++slice) {
        const int stage = slice & 1;
        if (slice + 1 < slices) fetch(slice + 1);
#pragma unroll
        for (int k = 0; k < DEPTH; ++k) {
            float a_part[ROW_BLOCKS * 4], b_part[COLUMN_BLOCKS * 4];
#pragma unroll
            for (int i = 0; i < ROW_BLOCKS; ++i)
                *reinterpret_cast<float4*>(&a_part[i * 4]) =
                    *reinterpret_cast<const float4*>(&a_slice[stage][k][i * 64 + row]);
#pragma unroll
            for (int j = 0; j < COLUMN_BLOCKS; ++j)
                *reinterpret_cast<float4*>(&b_part[j * 4]) =
                    *reinterpret_cast<const float4*>(&b_slice[stage][k][j * 64 + column]);
#pragma unroll
            for (int i = 0; i < ROW_BLOCKS * 4; ++i)
#pragma unroll
                for (int j = 0; j < COLUMN_BLOCKS * 4; ++j)
                    sum[i][j] = fmaf(a_part[i], b_part[j], sum[i][j]);
        }
        if (SUMS && slice == next_summed) {
            next_summed += slice_step;
            for (int k = thread / COLUMNS; k < DEPTH; k += PRODUCT_THREADS / COLUMNS)
                column_sum += b_slice[stage][k][thread % COLUMNS];
        }
        if (slice + 1 < slices) put(stage ^ 1);
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < ROW_BLOCKS * 4; ++i) {
        float values[COLUMN_BLOCKS][4];
#pragma unroll
        for (int j = 0; j < COLUMN_BLOCKS * 4; ++j) values[j / 4][j % 4] = sum[i][j];
        if constexpr (PARTS > 1)
            finish(i / 4 * 64 + row + i % 4, column, values);
        else
#pragma unroll
            for (int j = 0; j < COLUMN_BLOCKS; ++j)
                finish(i / 4 * 64 + row + i % 4, j * 64 + column, values[j]);
    }
    if (SUMS) {
        float* parts = &b_slice[0][0][0];
        parts[thread] = column_sum;
        __syncthreads();
        for (int i = thread + COLUMNS; i < PRODUCT_THREADS; i += COLUMNS) column_sum += parts[i];
    }
    return column_sum;
}

// This product reads weights in their usual order.
__device__ __forceinline__ int weight_position(int column) { return column; }
