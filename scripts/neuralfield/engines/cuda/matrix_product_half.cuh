// A tile of a matrix product of fp16 matrices with float32 sums, on tensor cores, by 8 warps.
//
// All sizes are multiples of the tiles': callers pad.
#pragma once

#include "element.cuh"
#include "warp_instructions.cuh"

#define PRODUCT_THREADS 256
#define PRODUCT_DEPTH 32  // depth of the slices that are held in shared memory

// A (LINES, WIDTH) matrix in shared memory. Its 16-byte chunks are permuted within each line, so
// that neither copies nor ldmatrix, which reads 8 lines at one column, have bank conflicts.
template <int LINES, int WIDTH>
struct SharedMatrix {
    __half data[LINES * WIDTH];

    __device__ __forceinline__ __half* chunk(int line, int index) {
        constexpr int CHUNKS = WIDTH / 8;
        const int shift = CHUNKS == 4 ? (line >> 1) & 3 : line & 7;
        return data + (line * CHUNKS + (index ^ shift)) * 8;
    }

    __device__ __forceinline__ void copy_from(const __half* source, size_t stride) {
        constexpr int CHUNKS = WIDTH / 8, SIZE = LINES * CHUNKS;
#pragma unroll
        for (int i = 0; i < (SIZE + PRODUCT_THREADS - 1) / PRODUCT_THREADS; ++i) {
            const int index = int(threadIdx.x) + i * PRODUCT_THREADS;
            if (SIZE % PRODUCT_THREADS && index >= SIZE) break;
            const int line = index / CHUNKS, column = index % CHUNKS;
            copy_16_bytes(chunk(line, column), source + size_t(line) * stride + column * 8);
        }
    }
};

// Results (row, column) of A B for rows 0 .. ROWS - 1 and columns 0 .. COLUMNS - 1.
//
// A element (row, k) is a[row * a_stride + k], or a[k * a_stride + row] if A_TRANSPOSED;
// B element (k, column) is b[k * b_stride + column]; k runs from 0 to depth - 1.
// finish(row, column, values) receives neighbouring results: 2, or GROUP if B_ORDERED, which
// requires that the columns of B are in the order of `weight_position`.
// With SUMS, threads below COLUMNS return the sum over k of B's column threadIdx.x, over every
// slice_step-th slice from first_slice on.
// With PARTS > 1, B consists of PARTS matrices, which are part_step columns apart, and finish
// receives values[PARTS][GROUP]: results at the same place of each product.
template <int ROWS, int COLUMNS, bool A_TRANSPOSED, bool B_ORDERED, bool SUMS, int PARTS = 1,
          typename Finish>
__device__ __forceinline__ float matrix_product(const __half* __restrict__ a, size_t a_stride,
                                                const __half* __restrict__ b, size_t b_stride,
                                                int depth, const Finish& finish,
                                                int first_slice = 0, int slice_step = 1,
                                                int part_step = 0) {
    constexpr int WARPS_DOWN = ROWS == 128 && COLUMNS < 128 ? 256 / COLUMNS : 2;
    constexpr int STAGES = PARTS > 4 ? 2 : 3;
    constexpr int WARP_ROWS = ROWS / WARPS_DOWN, WARP_COLUMNS = COLUMNS / (8 / WARPS_DOWN);
    constexpr int A_PARTS = WARP_ROWS / 16, B_PARTS = WARP_COLUMNS / 8;
    static_assert(!B_ORDERED || WARP_COLUMNS == 32, "an order of 32 columns");
    static_assert(PARTS == 1 || (B_ORDERED && !SUMS), "parts in one order, and without sums");
    using ASlice =
        SharedMatrix<A_TRANSPOSED ? PRODUCT_DEPTH : ROWS, A_TRANSPOSED ? ROWS : PRODUCT_DEPTH>;
    using BSlice = SharedMatrix<PRODUCT_DEPTH, COLUMNS>;
    __shared__ __align__(128) ASlice a_slices[STAGES];
    __shared__ __align__(128) BSlice b_slices[STAGES][PARTS];
    const int thread = int(threadIdx.x), lane = thread % 32, warp = thread / 32;
    const int warp_row = warp % WARPS_DOWN * WARP_ROWS;
    const int warp_column = warp / WARPS_DOWN * WARP_COLUMNS;

    auto copy_slice = [&](int slice) {
        const int stage = slice % STAGES;
        const size_t k = size_t(slice) * PRODUCT_DEPTH;
        a_slices[stage].copy_from(A_TRANSPOSED ? a + k * a_stride : a + k, a_stride);
#pragma unroll
        for (int part = 0; part < PARTS; ++part)
            b_slices[stage][part].copy_from(b + k * b_stride + part * part_step, b_stride);
    };

    float sums[PARTS][A_PARTS][B_PARTS][4] = {};
    float column_sum = 0.0f;
    int next_summed = first_slice;
    const int slices = depth / PRODUCT_DEPTH;
#pragma unroll
    for (int slice = 0; slice < STAGES - 1; ++slice) {
        if (slice < slices) copy_slice(slice);
        end_copies();
    }
    for (int slice = 0; slice < slices; ++slice) {
        wait_for_copies<STAGES - 2>();
        __syncthreads();  // all threads see the slice, and none still reads the previous one
        if (slice + STAGES - 1 < slices) copy_slice(slice + STAGES - 1);
        end_copies();
        ASlice& a_slice = a_slices[slice % STAGES];
        BSlice(&b_slice)[PARTS] = b_slices[slice % STAGES];
#pragma unroll
        for (int k = 0; k < PRODUCT_DEPTH; k += 16) {
            unsigned int a_part[A_PARTS][4];
#pragma unroll
            for (int i = 0; i < A_PARTS; ++i) {
                const int row = warp_row + i * 16;
                const __half* line =
                    A_TRANSPOSED
                        ? a_slice.chunk(k + lane % 8 + lane / 16 * 8, row / 8 + lane / 8 % 2)
                        : a_slice.chunk(row + lane % 16, k / 8 + lane / 16);
                load_matrices<A_TRANSPOSED>(a_part[i], shared_address(line));
            }
#pragma unroll
            for (int part = 0; part < PARTS; ++part) {
                unsigned int b_part[B_PARTS][2];
#pragma unroll
                for (int j = 0; j < B_PARTS; j += 2) {
                    unsigned int both[4];
                    const int chunk = warp_column / 8 + j + lane / 16;
                    const __half* line = b_slice[part].chunk(k + lane % 16, chunk);
                    load_matrices<true>(both, shared_address(line));
                    b_part[j][0] = both[0];
                    b_part[j][1] = both[1];
                    b_part[j + 1][0] = both[2];
                    b_part[j + 1][1] = both[3];
                }
#pragma unroll
                for (int i = 0; i < A_PARTS; ++i)
#pragma unroll
                    for (int j = 0; j < B_PARTS; ++j)
                        add_product(sums[part][i][j], a_part[i], b_part[j][0], b_part[j][1]);
            }
        }
        if (SUMS && slice == next_summed) {
            next_summed += slice_step;
            const int column = thread % COLUMNS;
#pragma unroll
            for (int i = 0; i < PRODUCT_DEPTH * COLUMNS / PRODUCT_THREADS; ++i) {
                const int k = thread / COLUMNS + i * (PRODUCT_THREADS / COLUMNS);
                column_sum += __half2float(b_slice[0].chunk(k, column / 8)[column % 8]);
            }
        }
    }
#pragma unroll
    for (int i = 0; i < A_PARTS * 2; ++i) {
        const int row = warp_row + i * 8 + lane / 4, own = i / 2, half = i % 2 * 2;
        if constexpr (B_ORDERED) {
            float values[PARTS][GROUP];
#pragma unroll
            for (int part = 0; part < PARTS; ++part)
#pragma unroll
                for (int j = 0; j < GROUP; ++j)
                    values[part][j] = sums[part][own][j / 2][half + j % 2];
            if constexpr (PARTS == 1)
                finish(row, warp_column + lane % 4 * GROUP, values[0]);
            else
                finish(row, warp_column + lane % 4 * GROUP, values);
        } else {
#pragma unroll
            for (int j = 0; j < B_PARTS; ++j) {
                float values[2] = {sums[0][own][j][half], sums[0][own][j][half + 1]};
                finish(row, warp_column + j * 8 + lane % 4 * 2, values);
            }
        }
    }
    if (SUMS) {
        __syncthreads();
        float* parts = reinterpret_cast<float*>(b_slices);
        parts[thread] = column_sum;
        __syncthreads();
        for (int i = thread + COLUMNS; i < PRODUCT_THREADS; i += COLUMNS) column_sum += parts[i];
    }
    return column_sum;
}

// Returns the position of a weight's column, permuted within each 32 columns. A thread has two
// results of each of four products of 8 columns; the permutation makes these 8 results neighbours,
// so that they can be stored as 16 bytes at once.
__device__ __forceinline__ int weight_position(int column) {
    const int within = column % 32;
    return column - within + within % 8 / 2 * 8 + within / 8 * 2 + within % 2;
}
