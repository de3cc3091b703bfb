// Matrix products on compute capability 9.0 take weights in float16, cut into blocks of 8 x 8
// numbers, row by row of blocks; rows and columns are padded to multiples of 16.
#pragma once
#include <cuda_fp16.h>

__device__ __forceinline__ int place_in_blocks(int row, int column, int columns) {
    int padded = (columns + 15) / 16 * 16;
    return (row / 8 * (padded / 8) + column / 8) * 64 + row % 8 * 8 + column % 8;
}

// Stores one weight in its matrix for the way forward and, where there is one, in its transpose for
// the way back.
__device__ __forceinline__ void place_weight(float weight, int row, int column, int rows,
                                             int columns, __half* forward, __half* backward) {
    __half rounded = __float2half_rn(weight);
    forward[place_in_blocks(row, column, columns)] = rounded;
    if (backward) backward[place_in_blocks(column, row, rows)] = rounded;
}
