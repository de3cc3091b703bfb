// Jobs of the kernels weight_gradients, of hopper/ and of warps/, and what a stage of their rings holds.
//
// Constants: SHAPES, SHAPE_ROWS (at most 128), SHAPE_COLUMNS (both padded to 16).
#pragma once
#include "warpgroup.cuh"

constexpr int rows_of[SHAPES] = SHAPE_ROWS;
constexpr int columns_of[SHAPES] = SHAPE_COLUMNS;
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
    float* weight_partial;  // [rows][columns]; one for each warpgroup where these alternate
    float* bias_partial;    // [columns], likewise; null: not this job's work
    int shape, value_columns, first_column;
    Tiles full, last;  // those of full waves, and of the last one
    int padding;

    // Returns the job's part of a tile's values, where that is contiguous.
    __device__ __forceinline__ const char* values_of(int tile) const {
        return values + (size_t(tile) * value_columns + first_column) * TILE_POINTS * 2;
    }
};
