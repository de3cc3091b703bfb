// The fused passes read weights in float16, divided into blocks of 8 x 8 numbers, which follow each
// other along the rows of blocks; rows and columns are padded to multiples of 16.
#pragma once
#include <cuda_fp16.h>

__device__ __forceinline__ int place_in_blocks(int row, int column, int columns) {
    int padded = (columns + 15) / 16 * 16;
    return (row / 8 * (padded / 8) + column / 8) * 64 + row % 8 * 8 + column % 8;
}

// Stores one weight in the matrix for the forward pass and, if it is not null, in the transpose for
// the backward pass.
__device__ __forceinline__ void place_weight(float weight, int row, int column, int rows,
                                             int columns, __half* forward, __half* backward) {
    __half rounded = __float2half_rn(weight);
    forward[place_in_blocks(row, column, columns)] = rounded;
    if (backward) backward[place_in_blocks(column, row, rows)] = rounded;
}
