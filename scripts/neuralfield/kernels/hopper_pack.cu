// Weights in float16, times their layer's frequency, as the stream that hopper_pass.cu works
// through: first the matrices from the first layer to the last, then their transposes from the last
// layer to the second. A matrix is cut into blocks of 8 x 8 numbers, row by row of blocks.
//
// Constants: MATRICES; MATRIX_ROWS, MATRIX_COLUMNS (real sizes), MATRIX_FACTORS, MATRIX_OFFSETS (in
// the parameters), FORWARD_STARTS, BACKWARD_STARTS (in the stream; -1: not in it).
#include <cuda_fp16.h>

__device__ __forceinline__ int place_in_blocks(int row, int column, int columns) {
    int padded = (columns + 15) / 16 * 16;
    return (row / 8 * (padded / 8) + column / 8) * 64 + row % 8 * 8 + column % 8;
}

extern "C" __global__ void hopper_pack(const float* parameters, __half* stream) {
    constexpr int rows[MATRICES] = MATRIX_ROWS, columns[MATRICES] = MATRIX_COLUMNS;
    constexpr int offsets[MATRICES] = MATRIX_OFFSETS;
    constexpr float factors[MATRICES] = MATRIX_FACTORS;
    constexpr int forward[MATRICES] = FORWARD_STARTS, backward[MATRICES] = BACKWARD_STARTS;
    int matrix = blockIdx.y;
    int count = rows[matrix] * columns[matrix];
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        int row = i / columns[matrix], column = i % columns[matrix];
        __half weight = __float2half_rn(factors[matrix] * parameters[offsets[matrix] + i]);
        stream[forward[matrix] + place_in_blocks(row, column, columns[matrix])] = weight;
        if (backward[matrix] >= 0)
            stream[backward[matrix] + place_in_blocks(column, row, rows[matrix])] = weight;
    }
}
