// Copies of a tile's numbers between the registers of a thread, where they are laid out as left
// operands of products, and buffers in shared memory.
//
// Constants: those of padded_network.cuh.
#pragma once
#include "padded_network.cuh"

// Loads a thread's share of 16 columns of its warp's rows, as left operand of a product: the four
// pairs that TileBuffer::put stores.
template <int columns>
__device__ __forceinline__ void load_operand(uint32_t* operand, const TileBuffer& buffer,
                                             int column) {
    const int block_row = 2 * buffer.warp + buffer.lane / 8 % 2, block = buffer.lane / 16;
    load_matrices<false>(operand, shared_address(buffer.tile) + buffer.lane % 8 * 16 +
                                      (block_row * (columns / 8) + block) * 128 + column / 8 * 128);
}

// Stores all columns of a thread's left operand in a buffer.
template <int columns>
__device__ __forceinline__ void put_operand(const TileBuffer& buffer, const uint32_t* operand) {
#pragma unroll
    for (int column = 0; column < columns; column += 16) {
        const uint32_t* own = operand + column / 4;
        buffer.put<columns>(column, {own[0], own[1], own[2], own[3]});
    }
}
