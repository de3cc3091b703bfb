// The counterpart of hopper/weight_gradients.cu with products of warps: gradients of weights and
// biases, as sums over all points of (values of the layer before) x (gradients), which wide_pass.cu
// has stored in global memory.
//
// A block works on one job: up to 128 rows of one layer's matrix, over some of the tiles. It begins
// with the tiles that were written last, which the L2 cache still has, and goes on to older ones.
// The rows and columns are distributed over its 8 warps. Partial sums of the jobs are added up in a
// fixed order by update.cu.
//
// Constants: WEIGHT_STAGES, and those of weight_job.cuh.
#include "../dependent_launch.cuh"
#include "../fused/weight_job.cuh"
#include "weight_sums.cuh"

constexpr int THREADS = 256;

template <int rows, int columns>
__device__ __forceinline__ void bring(const Job& job, int number, char* buffer) {
    if (number < job.full.count + job.last.count) {
        const int tile = number < job.last.count
                             ? job.last.newest - number * job.last.step
                             : job.full.newest - (number - job.last.count) * job.full.step;
        constexpr int row_bytes = rows / 8 * 128, gradient_bytes = TILE_POINTS * columns * 2;
        char* stage = buffer + number % WEIGHT_STAGES * STAGE_BYTES;
        start_copy<gradient_bytes, THREADS>(stage, job.gradients + size_t(tile) * gradient_bytes);
        const char* values =
            job.values + size_t(tile) * TILE_POINTS * job.value_columns * 2 + job.first_column * 16;
        const uint32_t target = shared_address(stage + gradient_bytes);
#pragma unroll
        for (int first = 0; first < 8 * row_bytes; first += THREADS * 16) {
            const int i = first + threadIdx.x * 16;
            if (8 * row_bytes % (THREADS * 16) == 0 || i < 8 * row_bytes)
                copy_16_bytes(target + i,
                              values + i / row_bytes * job.value_columns * 16 + i % row_bytes);
        }
    }
    end_copies();
}

// Adds a tile's gradients of block `place` of 8 columns to their sums: the gradient of a bias is
// that of a weight whose input is one. Lanes with the same number modulo four have the same sums.
__device__ __forceinline__ void add_bias_gradients(float (&sums)[2], uint32_t gradients,
                                                   int gradient_row, int place, int lane) {
    const uint32_t ones = 0x3C003C00;
    float rows_alike[4] = {};
#pragma unroll
    for (int k = 0; k < TILE_POINTS / 16; k += 2) {
        uint32_t blocks[4];
        load_matrices<true>(
            blocks, gradients + (2 * k + lane / 8) * gradient_row + place * 128 + lane % 8 * 16);
        warp_product(rows_alike, ones, ones, blocks[0], blocks[1]);
        warp_product(rows_alike, ones, ones, blocks[2], blocks[3]);
    }
    sums[0] += rows_alike[0];
    sums[1] += rows_alike[1];
}

template <typename Shape>
__device__ __forceinline__ void add_up(Shape, const Job& job, char* buffer) {
    constexpr int rows = Shape::rows, columns = Shape::columns;
    constexpr int value_row = rows / 8 * 128, gradient_row = columns / 8 * 128;
    constexpr int across = warps_across(rows / 16, columns / 16), down = 8 / across;
    constexpr int own_rows = (rows / 16 + down - 1) / down;
    constexpr int own_columns = (columns / 16 + across - 1) / across;
    constexpr int own_blocks = (columns / 8 + 7) / 8;  // of 8 columns, for biases
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int first_row = warp / across * own_rows * 16;
    const int first_column = warp % across * own_columns * 16;
    float sums[own_rows][own_columns * 8] = {}, bias[own_blocks][2] = {};

    const int count = job.full.count + job.last.count;
    for (int i = 0; i < WEIGHT_STAGES - 1; ++i) bring<rows, columns>(job, i, buffer);
    for (int i = 0; i < count; ++i) {
        wait_for_copies<WEIGHT_STAGES - 2>();
        __syncthreads();  // the tile is loaded, and all have read the one before it
        bring<rows, columns>(job, i + WEIGHT_STAGES - 1, buffer);
        const uint32_t gradients = shared_address(buffer + i % WEIGHT_STAGES * STAGE_BYTES);
        const uint32_t values = gradients + 8 * gradient_row;
#pragma unroll
        for (int k = 0; k < TILE_POINTS / 16; ++k) {
            uint32_t left[own_rows][4];
#pragma unroll
            for (int j = 0; j < own_rows; ++j)
                if (rows % (16 * down * own_rows) == 0 || first_row + 16 * j < rows)
                    load_left<1>(left[j], block_matrix(values + 2 * k * value_row +
                                                           (first_row / 8 + 2 * j) * 128,
                                                       value_row, 128));
#pragma unroll
            for (int block = 0; block < own_columns; ++block) {
                const int column = first_column + 16 * block;
                if (columns % (16 * across * own_columns) && column >= columns) continue;
                uint32_t right[4];
                load_right<1>(right, block_matrix(gradients + 2 * k * gradient_row + column * 16,
                                                  gradient_row, 128));
#pragma unroll
                for (int j = 0; j < own_rows; ++j) {
                    if (rows % (16 * down * own_rows) && first_row + 16 * j >= rows) continue;
                    add_product(sums[j] + 8 * block, left[j], right[0], right[1]);
                    add_product(sums[j] + 8 * block + 4, left[j], right[2], right[3]);
                }
            }
        }
        if (!job.bias_partial) continue;
#pragma unroll
        for (int block = 0; block < own_blocks; ++block) {
            const int place = warp + 8 * block;
            if (columns % 64 && place >= columns / 8) continue;
            add_bias_gradients(bias[block], gradients, gradient_row, place, lane);
        }
    }
    wait_for_copies<0>();

#pragma unroll
    for (int j = 0; j < own_rows; ++j)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int row = first_row + 16 * j + 8 * i + lane / 4;
#pragma unroll
            for (int block = 0; block < 2 * own_columns; ++block) {
                const int column = first_column + 8 * block;
                if (row < rows && column < columns)
                    *reinterpret_cast<float2*>(job.weight_partial + row * columns + column +
                                               lane % 4 * 2) =
                        make_float2(sums[j][4 * block + 2 * i], sums[j][4 * block + 2 * i + 1]);
            }
        }
    if (job.bias_partial && lane < 4)
#pragma unroll
        for (int block = 0; block < own_blocks; ++block)
            if (warp + 8 * block < columns / 8)
                *reinterpret_cast<float2*>(job.bias_partial + 8 * (warp + 8 * block) + 2 * lane) =
                    make_float2(bias[block][0], bias[block][1]);
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) weight_gradients(const Job* jobs) {
    extern __shared__ __align__(128) char memory[];
    const Job job = jobs[blockIdx.x];
    wait_for_earlier_kernels();
    for_shape(job, [&](auto shape) { add_up(shape, job, memory); });
}
