// Sums over points that are too small for the layers' matrix products: a few vectors times a tile.
#pragma once
#include "padded_network.cuh"

constexpr int ROWS_PITCH = 72;  // 64 rows, and padding that keeps a warp's reads in different banks

// Stores, for each vector, its numbers for the two points of this thread.
template <int count>
__device__ __forceinline__ void store_rows(__half (*left)[ROWS_PITCH], const TileBuffer& buffer,
                                           const float (&numbers)[2][count]) {
    if (buffer.lane % 4 == 0)
#pragma unroll
        for (int v = 0; v < count; ++v)
#pragma unroll
            for (int i = 0; i < 2; ++i)
                left[v][16 * buffer.warp + 8 * i + buffer.lane / 4] = __ushort_as_half(
                    static_cast<unsigned short>(pack_saturated(numbers[i][v], 0.0f)));
}

// vectors += (stored numbers) x (the tile in the buffer); warps take blocks of columns in turn.
template <int columns, int products>
__device__ __forceinline__ void add_vectors(const TileBuffer& buffer,
                                            const __half (*left)[8][ROWS_PITCH],
                                            float (*vectors)[WIDEST], int count) {
    constexpr int block_row = columns / 8 * 128;
    const int row = buffer.lane / 4, own_rows = buffer.lane % 4 * 2;
    uint32_t operand[products][8];
#pragma unroll
    for (int product = 0; product < products; ++product)
#pragma unroll
        for (int k = 0; k < 8; ++k)
            operand[product][k] =
                *reinterpret_cast<const uint32_t*>(&left[product][row][8 * k + own_rows]);
    const uint32_t address =
        shared_address(buffer.tile) + buffer.lane % 8 * 16 + buffer.lane / 8 * block_row;
#pragma unroll 2
    for (int j = buffer.warp; j < columns / 8; j += 4) {
        float sums[4][4] = {};
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            uint32_t rows[4];
            load_matrices<true>(rows, address + half * 4 * block_row + j * 128);
#pragma unroll
            for (int product = 0; product < products; ++product) {
                const uint32_t* own = operand[product] + 4 * half;
                warp_product(sums[2 * half], own[0], own[1], rows[0], rows[1]);
                warp_product(sums[2 * half + 1], own[2], own[3], rows[2], rows[3]);
            }
        }
        if (row < count) {
            float2* place = reinterpret_cast<float2*>(&vectors[row][8 * j + own_rows]);
            *place =
                make_float2(place->x + ((sums[0][0] + sums[1][0]) + (sums[2][0] + sums[3][0])),
                            place->y + ((sums[0][1] + sums[1][1]) + (sums[2][1] + sums[3][1])));
        }
    }
}
