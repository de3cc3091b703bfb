// The gradient of a hash grid for batches with points in each block of an image, see nn/blocks.py.
// Reference implementation: fields/hashgrid.py.
//
// The blocks beside a corner are known in advance, and each block has a fixed place in the batch.
// Therefore each row of the table is assigned to some lanes of a warp: they read the points of the
// blocks beside the row's corners, and add up the contributions of these points to the row's
// gradient, always in the same order.
//
// Constants: POINTS (of a slot), TILE_PIXELS, TILE_ROWS (see BatchPlan), FEWEST (minimum number of
// slots in a row of blocks; other rows have one more), BLOCK_LEVELS (structs BlockLevel), and those
// of grid_corners.cuh.
#include "grid_corners.cuh"

// The corners of a level that are next to the image, and how they are distributed over threads.
struct BlockLevel {
    int first_column, first_line;               // of corners
    int across, down;                           // where the level begins in the arrays of spans
    int lanes, lanes_of_corners, lanes_across;  // of a row of the table: base-2 logarithms
    int first_block;                            // of threads
};

__constant__ BlockLevel block_levels[LEVELS] = BLOCK_LEVELS;

// Blocks beside a column of corners, from the first up to, but without, the last: in rows of FEWEST
// blocks, and in rows of one block more.
struct Span {
    int first, last, first_of_more, last_of_more;
};

// Adds the contributions of the points of a slot to a corner.
__device__ __forceinline__ void add_slot(Features& total, const float2* __restrict__ inputs,
                                         const element* __restrict__ gradients, int slot,
                                         int number, int resolution, int column, int line) {
#pragma unroll 1
    for (int point = 0; point < POINTS; ++point) {
        const int row = slot / TILE_PIXELS * TILE_ROWS + slot % TILE_PIXELS * POINTS + point;
        const float2 input = inputs[row];
        const Near x = near_corner(input.x, resolution), y = near_corner(input.y, resolution);
        const int is_behind = column - x.corner, is_below = line - y.corner;
        if (unsigned(is_behind) > 1u || unsigned(is_below) > 1u) continue;
        const float weight =
            (is_below ? y.part : 1.0f - y.part) * (is_behind ? x.part : 1.0f - x.part);
        add_weighted(total, weight, load_features(gradients, row, number));
    }
}

// Computes the gradient of each row of the table. The corners that share a row, as columns and
// lines, are in `corners` from starts[row] on. Each block of threads works on one level. Grid:
// (blocks,).
extern "C" __global__ __launch_bounds__(THREADS) void grid_block_sums(
    const float2* __restrict__ inputs, const element* __restrict__ gradients,
    const int* __restrict__ first_slots, const Span* __restrict__ across,
    const int2* __restrict__ down, const int* __restrict__ starts,
    const ushort2* __restrict__ corners, const unsigned char* __restrict__ levels,
    Features* __restrict__ gradient) {
    const int number = levels[blockIdx.x];
    const BlockLevel level = block_levels[number];
    // neighbouring threads have neighbouring rows of the table, whose points are mostly the same
    const int rows_of_warp = 32 >> level.lanes, lane = int(threadIdx.x) % 32 >> (5 - level.lanes);
    const int lane_of_corner = lane & ((1 << level.lanes_of_corners) - 1);
    const int lane_of_block = lane >> level.lanes_of_corners;
    const int lane_across = lane_of_block & ((1 << level.lanes_across) - 1);
    const int lane_down = lane_of_block >> level.lanes_across;
    const int lanes_down = 1 << (level.lanes - level.lanes_of_corners - level.lanes_across);
    const int warp = (int(blockIdx.x) - level.first_block) * (THREADS / 32) + int(threadIdx.x) / 32;
    const int own = warp * rows_of_warp + (int(threadIdx.x) & (rows_of_warp - 1));
    const bool is_valid = own < grid_levels[number].rows;
    const int row = grid_levels[number].start + own, resolution = grid_levels[number].resolution;
    Features total = {};
    const int last_corner = is_valid ? starts[row + 1] : 0;
    for (int i = is_valid ? starts[row] + lane_of_corner : 0; i < last_corner;
         i += 1 << level.lanes_of_corners) {
        const ushort2 corner = corners[i];
        const Span span = across[level.across + corner.x];
        const int2 rows = down[level.down + corner.y];
        for (int r = rows.x + lane_down; r < rows.y; r += lanes_down) {
            const int slot = first_slots[r];
            const bool has_more = first_slots[r + 1] - slot > FEWEST;
            const int last = has_more ? span.last_of_more : span.last;
            for (int place = (has_more ? span.first_of_more : span.first) + lane_across;
                 place < last; place += 1 << level.lanes_across)
                add_slot(total, inputs, gradients, slot + place, number, resolution,
                         level.first_column + corner.x, level.first_line + corner.y);
        }
    }
    for (int distance = 16; distance >= rows_of_warp; distance /= 2)
#pragma unroll
        for (int j = 0; j < FEATURES; ++j)
            total.numbers[j] += __shfl_xor_sync(~0u, total.numbers[j], distance);
    if (is_valid && lane == 0) gradient[row] = total;
}
