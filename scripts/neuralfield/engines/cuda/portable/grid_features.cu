// Features of points: the table's rows at the corners around each point, interpolated bilinearly.
// Reference implementation: fields/hashgrid.py.
//
// In a batch of all pixels, neighbouring points are neighbours in every grid, and mostly in the
// table too, because a corner's row in a hashed grid is its column with some bits changed.
//
// Constants: LEVELS_ABREAST, PLACES, and those of grid_corners.cuh.
#include "grid_corners.cuh"

// Rows beyond the valid ones are computed as for (0, 0). Neighbouring threads have LEVELS_ABREAST
// levels of a row, and then those of the next row; a thread has PLACES pairs of a row and a level,
// THREADS apart. Grid: (rows * LEVELS_ABREAST / (THREADS * PLACES), LEVELS / LEVELS_ABREAST).
extern "C" __global__ __launch_bounds__(THREADS) void grid_features(const float2* inputs,
                                                                    int valid_rows, int rows,
                                                                    const Features* table,
                                                                    element* features) {
    int own_rows[PLACES], numbers[PLACES];
    float2 points[PLACES];
#pragma unroll
    for (int i = 0; i < PLACES; ++i) {
        const int place = (int(blockIdx.x) * PLACES + i) * THREADS + int(threadIdx.x);
        own_rows[i] = place / LEVELS_ABREAST;
        numbers[i] = int(blockIdx.y) * LEVELS_ABREAST + place % LEVELS_ABREAST;
        points[i] = own_rows[i] < valid_rows ? inputs[own_rows[i]] : make_float2(0.0f, 0.0f);
    }
    float weights[PLACES][4];
    Features loaded[PLACES][4];
#pragma unroll
    for (int i = 0; i < PLACES; ++i) {
        const GridLevel level = grid_levels[min(numbers[i], LEVELS - 1)];
        const Corners corners(level, near_corner(points[i].x, level.resolution),
                              near_corner(points[i].y, level.resolution));
#pragma unroll
        for (int corner = 0; corner < 4; ++corner) {
            weights[i][corner] = corners.weights[corner];
            loaded[i][corner] = table[corners.rows[corner]];
        }
    }
#pragma unroll
    for (int i = 0; i < PLACES; ++i) {
        Features sum = {};
#pragma unroll
        for (int corner = 0; corner < 4; ++corner)
            add_weighted(sum, weights[i][corner], loaded[i][corner]);
        if (own_rows[i] < rows && numbers[i] < LEVELS)
            store_features(features, own_rows[i], numbers[i], sum);
    }
}
