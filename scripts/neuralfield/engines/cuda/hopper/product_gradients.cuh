// Gradients of the first two weights, over the tiles of both warpgroups of product_pass.cu.
//
// Constants: those of product_pass.cuh.
#pragma once
#include "product_tile.cuh"

// Sums of the first weight's gradient, over all tiles: 64 features, and a warpgroup's factors.
struct FirstGradient {
    float sums[INPUT_WIDTH / 64][OWN_FACTORS / 2] = {};
};

// gradient += (transpose of features) x (slopes of factors), under way when it returns.
__device__ __forceinline__ void start_first_gradient(FirstGradient& gradient, uint32_t features,
                                                     uint32_t factors, int warpgroup) {
    constexpr int feature_row = INPUT_WIDTH / 8 * 128, slope_row = ALL_FACTORS / 8 * 128;
    const uint64_t left = block_matrix(features, feature_row, 128);
    const uint64_t right =
        block_matrix(factors + warpgroup * OWN_FACTORS / 8 * 128, slope_row, 128);
    wgmma_fence();
#pragma unroll
    for (int tile = 0; tile < BLOCK_TILES; ++tile)
#pragma unroll
        for (int chunk = 0; chunk < INPUT_WIDTH / 64; ++chunk)
#pragma unroll
            for (int k = 0; k < 4; ++k)
                Wgmma<OWN_FACTORS>::add<1>(
                    gradient.sums[chunk],
                    part_of(left, tile * FEATURES_BYTES + chunk * 1024 + 2 * k * feature_row),
                    part_of(right, tile * FACTORS_BYTES + 2 * k * slope_row));
    wgmma_commit();
}

// The second weight's gradient of a pair of tiles, in a warpgroup's columns, 64 rows at a time; and
// sums of the slopes of the relu layer's z.
struct SecondGradient {
    float sums[blocks_of(PADDED)][OWN / 2];
    float bias[4];
};

__device__ __forceinline__ void start_second_gradient(SecondGradient& gradient, uint32_t products,
                                                      uint32_t slopes, int warpgroup,
                                                      const uint4* ones) {
    constexpr int block_row = PADDED / 8 * 128;
    const uint64_t left = block_matrix(products, block_row, 128);
    const uint64_t right = block_matrix(slopes + warpgroup * OWN / 8 * 128, block_row, 128);
    wgmma_fence();
#pragma unroll
    for (int tile = 0; tile < BLOCK_TILES; ++tile) {
#pragma unroll
        for (int chunk = 0; chunk < blocks_of(PADDED); ++chunk)
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                const int place = tile * VALUES_BYTES + 2 * k * block_row;
                const uint64_t rows = part_of(left, place + chunk * 1024);
                if (tile || k)
                    Wgmma<OWN>::add<1>(gradient.sums[chunk], rows, part_of(right, place));
                else
                    Wgmma<OWN>::set<1>(gradient.sums[chunk], rows, part_of(right, place));
            }
        const uint32_t table = slopes + tile * VALUES_BYTES;
        if (tile)
            start_column_sums<PADDED, true>(gradient.bias, table, warpgroup * OWN, ones, 0);
        else
            start_column_sums<PADDED>(gradient.bias, table, warpgroup * OWN, ones, 0);
    }
    wgmma_commit();
}

// Whether a warp has sums of a chunk, not only of what is behind the last row.
__device__ __forceinline__ bool has_rows(const Table& table, int chunk) {
    return CHUNK_ROWS * chunk + 16 * table.warp < PADDED;
}

// Place of four sums of this thread, number `i` of a chunk.
__device__ __forceinline__ float4* second_sums(const ProductShared& shared, int chunk, int i) {
    const size_t place = size_t(blockIdx.x) * SECOND_FOURS + chunk * (OWN / 8) + i;
    return shared.arguments.second_sums + place * CONSUMERS + threadIdx.x;
}

// Calls `work(chunk, i)` for each four of a thread's sums of the second weight's gradient.
template <typename Work>
__device__ __forceinline__ void for_second_sums(const Table& table, const Work& work) {
#pragma unroll
    for (int chunk = 0; chunk < blocks_of(PADDED); ++chunk)
        if (has_rows(table, chunk))
#pragma unroll
            for (int i = 0; i < OWN / 8; ++i) work(chunk, i);
}

// Add it to the sums over all tiles. Each number there is one thread's alone, so that the order of
// what is added is its own.
__device__ __forceinline__ void add_second_gradient(const SecondGradient& gradient,
                                                    const Table& table, ProductShared& shared) {
    for_second_sums(table, [&](int chunk, int i) {
        const float* sums = gradient.sums[chunk] + 4 * i;
        asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(
                         __cvta_generic_to_global(second_sums(shared, chunk, i))),
                     "f"(sums[0]), "f"(sums[1]), "f"(sums[2]), "f"(sums[3])
                     : "memory");
    });
    if (table.lane % 4 == 0)
#pragma unroll
        for (int i = 0; i < 2; ++i)
            if (row_of(table, 0, i) < OWN)
                shared.second_bias_sums[table.number * OWN + row_of(table, 0, i)] +=
                    gradient.bias[2 * i];
}
