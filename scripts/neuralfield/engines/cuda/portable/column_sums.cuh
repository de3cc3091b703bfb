// Sums over rows, in which each thread has a group of neighbouring columns of every row_step-th
// row.
#pragma once

#include "../element.cuh"

// The columns and rows of a (rows, width) array that a thread processes.
struct ColumnGroup {
    int column, first_row, row_step;
    bool active;  // false for the threads that are left if the width does not divide the block

    __device__ __forceinline__ explicit ColumnGroup(int width) {
        const int groups = width / GROUP;
        column = int(threadIdx.x) % groups * GROUP;
        first_row = int(threadIdx.x) / groups;
        row_step = THREADS / groups;
        active = first_row < row_step;
    }
};

// Adds up the threads' sums in the order of their rows. Element c of the result is stored at
// target[c * step] or, if `accumulate`, added to it. `scratch` has THREADS * GROUP numbers.
__device__ __forceinline__ void write_column_sums(const ColumnGroup& at, int width,
                                                  const float (&sums)[GROUP], float* scratch,
                                                  float* target, int step, bool accumulate) {
    __syncthreads();
    if (at.active) {
#pragma unroll
        for (int i = 0; i < GROUP; ++i) scratch[at.first_row * width + at.column + i] = sums[i];
    }
    __syncthreads();
    for (int column = int(threadIdx.x); column < width; column += THREADS) {
        float total = accumulate ? target[column * step] : 0.0f;
        for (int row = 0; row < at.row_step; ++row) total += scratch[row * width + column];
        target[column * step] = total;
    }
}
