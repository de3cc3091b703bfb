// Matrix products on compute capability 9.0 read weights in float16, divided into blocks of 8 x 8
// numbers, which follow each other along the rows of blocks; rows and columns are padded to
// multiples of 16.
#pragma once
#include <cuda_fp16.h>

__device__ __forceinline__ int place_in_blocks(int row, int column, int columns) {
    int padded = (columns + 15) / 16 * 16;
    return (row / 8 * (padded / 8) + column / 8) * 64 + row % 8 * 8 + column % 8;
}

// The place of a weight in right operands of a warp's products. For each 16 columns, blocks of
// 16 x 16 numbers follow each other down the rows; a thread's numbers in a block are neighbours.
__device__ __forceinline__ int place_in_operands(int row, int column, int rows) {
    int blocks = (rows + 15) / 16, lane = column % 8 * 4 + row % 8 / 2;
    return (column / 16 * blocks + row / 16) * 256 + lane * 8 + column % 16 / 8 * 4 +
           row % 16 / 8 * 2 + row % 2;
}

// Stores one weight in the matrix for the forward pass and, if it is not null, in the transpose for
// the backward pass.
template <bool as_operands = false>
__device__ __forceinline__ void place_weight(float weight, int row, int column, int rows,
                                             int columns, __half* forward, __half* backward) {
    __half rounded = __float2half_rn(weight);
    forward[as_operands ? place_in_operands(row, column, rows)
                        : place_in_blocks(row, column, columns)] = rounded;
    if (backward)
        backward[as_operands ? place_in_operands(column, row, columns)
                             : place_in_blocks(column, row, rows)] = rounded;
}
