// Sums of a weight matrix's gradient over the tiles of a block, in the registers of its 8 warps.
#pragma once
#include "../fused/warpgroup.cuh"

// Chooses how many of 8 warps are side by side on `down` x `across` blocks.
__host__ __device__ constexpr int warps_across(int down, int across) {
    int best = 1, best_cost = 1 << 30;
    for (int warps = 1; warps <= 8; warps *= 2) {
        int own_down = (down + 8 / warps - 1) / (8 / warps),
            own_across = (across + warps - 1) / warps;
        int cost = 64 * own_down * own_across + own_down + own_across;
        if (cost < best_cost) best = warps, best_cost = cost;
    }
    return best;
}

// A warp has own_rows x own_columns blocks of 16 rows and 8 columns.
template <int rows, int columns>
struct WeightSums {
    static constexpr int across = warps_across(rows / 16, columns / 8), down = 8 / across;
    static constexpr int own_rows = (rows / 16 + down - 1) / down;
    static constexpr int own_columns = (columns / 8 + across - 1) / across;
    float sums[own_rows][own_columns][4] = {};

    static __device__ __forceinline__ int warp() { return __shfl_sync(~0u, threadIdx.x / 32, 0); }
    static __device__ __forceinline__ int first_row() { return warp() / across * own_rows * 16; }
    static __device__ __forceinline__ int first_column() {
        return warp() % across * own_columns * 8;
    }
    static __device__ __forceinline__ bool has_rows(int j) {
        return rows % (16 * down * own_rows) == 0 || first_row() + 16 * j < rows;
    }
    static __device__ __forceinline__ bool has_columns(int block) {
        return columns % (8 * across * own_columns) == 0 || first_column() + 8 * block < columns;
    }

    // sums += (transpose of a tile's values) x gradients, both in buffers of 64 points. Calls
    // `each_right` with the gradients of 16 points and 16 columns as they are loaded.
    template <typename EachRight>
    __device__ __forceinline__ void add(const char* values, const char* gradients,
                                        const EachRight& each_right) {
        constexpr int value_row = rows / 8 * 128, gradient_row = columns / 8 * 128;
        const uint32_t left_address = shared_address(values) + first_row() * 16;
        const uint32_t right_address = shared_address(gradients) + first_column() * 16;
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            uint32_t left[own_rows][4];
#pragma unroll
            for (int j = 0; j < own_rows; ++j)
                if (has_rows(j))
                    load_left<1>(left[j],
                                 block_matrix(left_address + 2 * k * value_row + 2 * j * 128,
                                              value_row, 128));
#pragma unroll
            for (int block = 0; block < own_columns; block += 2) {
                if (!has_columns(block)) continue;
                const bool has_next = block + 1 < own_columns && has_columns(block + 1);
                uint32_t right[4];
                load_right<1>(right,
                              block_matrix(right_address + 2 * k * gradient_row + block * 128,
                                           gradient_row, has_next ? 128 : 0));
                each_right(block / 2, right);
#pragma unroll
                for (int j = 0; j < own_rows; ++j) {
                    if (!has_rows(j)) continue;
                    add_product(sums[j][block], left[j], right[0], right[1]);
                    if (has_next) add_product(sums[j][block + 1], left[j], right[2], right[3]);
                }
            }
        }
    }

    __device__ __forceinline__ void add(const char* values, const char* gradients) {
        add(values, gradients, [](int, const uint32_t (&)[4]) {});
    }

    // Writes the sums as the part of the gradient with this number.
    __device__ __forceinline__ void write(float* partials, int number) const {
        const int lane = threadIdx.x % 32;
        float* partial = partials + size_t(number) * rows * columns + lane % 4 * 2;
#pragma unroll
        for (int j = 0; j < own_rows; ++j)
#pragma unroll
            for (int block = 0; block < own_columns; ++block)
                if (has_rows(j) && has_columns(block))
#pragma unroll
                    for (int i = 0; i < 2; ++i)
                        *reinterpret_cast<float2*>(
                            partial + (first_row() + 16 * j + 8 * i + lane / 4) * columns +
                            first_column() + 8 * block) =
                            make_float2(sums[j][block][2 * i], sums[j][block][2 * i + 1]);
    }
};
