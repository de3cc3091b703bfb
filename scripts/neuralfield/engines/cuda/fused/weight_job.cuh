// Jobs of the kernels weight_gradients in hopper/ and warps/, and the size of their rings' stages.
//
// Constants: SHAPES, SHAPE_ROWS (at most 128), SHAPE_COLUMNS (both padded to 16), SHAPE_ALTERNATES
// (whether warpgroups take tiles in turn, instead of each having half of the matrix's rows).
#pragma once
#include "warpgroup.cuh"

constexpr int rows_of[SHAPES] = SHAPE_ROWS;
constexpr int columns_of[SHAPES] = SHAPE_COLUMNS;
constexpr bool alternates[SHAPES] = SHAPE_ALTERNATES;
constexpr int TILE_POINTS = 64;

__host__ __device__ constexpr int largest_stage() {
    int largest = 0;
    for (int shape = 0; shape < SHAPES; ++shape) {
        int bytes = 2 * TILE_POINTS * (rows_of[shape] + columns_of[shape]);
        largest = bytes > largest ? bytes : largest;
    }
    return largest;
}

constexpr int STAGE_BYTES = largest_stage();

// newest, newest - step, ...
struct Tiles {
    int newest, count, step;
};

struct Job {
    const char* values;  // tiles of the layer's input, all its columns
    const char* gradients;
    float* weight_partial;  // [rows][columns]; one for each warpgroup if these alternate
    float* bias_partial;    // [columns], likewise; null: this job sums no bias
    int shape, value_columns, first_column;
    Tiles full, last;  // tiles of the full waves, and of the last wave
    int padding;
};

template <int place>
struct Shape {
    static constexpr int rows = rows_of[place], columns = columns_of[place];
    static constexpr bool alternate = alternates[place];
};

// Calls `work` with the shape of a job.
template <int place = 0, typename Work>
__device__ __forceinline__ void for_shape(const Job& job, const Work& work) {
    if constexpr (place < SHAPES) {
        if (job.shape == place)
            work(Shape<place>());
        else
            for_shape<place + 1>(job, work);
    }
}
