// Features of points: a hash grid's rows at the corners around each, interpolated bilinearly.
// Reference implementation: fields/hashgrid.py.
//
// Neighbours in a batch of all pixels are neighbours in every grid, and mostly in the table too:
// a row of a hashed grid is its column with some bits changed.
//
// Constants: LEVELS_ABREAST, and those of grid_corners.cuh.
#include "grid_corners.cuh"

// Rows beyond the valid ones are computed as for (0, 0). Neighbouring threads have LEVELS_ABREAST
// levels of a row, and then the next row's. Grid: (rows * LEVELS_ABREAST / THREADS, LEVELS /
// LEVELS_ABREAST).
extern "C" __global__ __launch_bounds__(THREADS) void grid_features(const float2* inputs,
                                                                    int valid_rows, int rows,
                                                                    const Features* table,
                                                                    element* features) {
    const int place = int(blockIdx.x * blockDim.x + threadIdx.x);
    const int row = place / LEVELS_ABREAST;
    const int number = int(blockIdx.y) * LEVELS_ABREAST + place % LEVELS_ABREAST;
    if (row >= rows || number >= LEVELS) return;
    const float2 point = row < valid_rows ? inputs[row] : make_float2(0.0f, 0.0f);
    const GridLevel level = grid_levels[number];
    const Corners corners(level, near_corner(point.x, level.resolution),
                          near_corner(point.y, level.resolution));
    Features loaded[4], sum = {};
#pragma unroll
    for (int i = 0; i < 4; ++i) loaded[i] = table[corners.rows[i]];
#pragma unroll
    for (int i = 0; i < 4; ++i) add_weighted(sum, corners.weights[i], loaded[i]);
    store_features(features, row, number, sum);
}
