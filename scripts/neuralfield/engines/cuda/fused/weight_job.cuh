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
};

// Adds a tile's gradients of 8 columns, from block `place` of 8 on, to their sums: a bias's gradient
// is that of a weight whose input is one. All lanes of four have the same sums.
__device__ __forceinline__ void add_bias_gradients(float (&sums)[2], uint32_t gradients,
                                                   int gradient_row, int place, int lane) {
    const uint32_t ones = 0x3C003C00;
    float rows_alike[4] = {};
#pragma unroll
    for (int k = 0; k < TILE_POINTS / 16; k += 2) {
        uint32_t blocks[4];
        load_transposed(
            blocks, gradients + (2 * k + lane / 8) * gradient_row + place * 128 + lane % 8 * 16);
        warp_product(rows_alike, ones, ones, blocks[0], blocks[1]);
        warp_product(rows_alike, ones, ones, blocks[2], blocks[3]);
    }
    sums[0] += rows_alike[0];
    sums[1] += rows_alike[1];
}
