// The gradient of a hash grid for batches of the centres of all pixels of an image, in order.
// Reference implementation: fields/hashgrid.py.
//
// A corner's weight at a pixel is a factor for the pixel's column times a factor for its line.
// Therefore gradients are first summed along each line of pixels, for each column of corners. These
// sums are then summed down the lines, for each corner, and the results of all corners that share a
// row of the table are added up. Each sum is computed by one thread, in a fixed order.
//
// Constants: WIDTH, HEIGHT (of the image), IMAGE_LEVELS (structs ImageLevel), and those of
// grid_corners.cuh.
#include "../dependent_launch.cuh"
#include "grid_corners.cuh"

// A level's corners that are next to any pixel, and which blocks work on it.
struct ImageLevel {
    int columns;                   // of corners
    int first_column, first_line;  // in the arrays of spans
    long long first_sum;           // in the array of sums: (HEIGHT, columns)
    int first_block_of[2];         // in grid_line_sums and in grid_row_sums
};

__constant__ ImageLevel image_levels[LEVELS] = IMAGE_LEVELS;

// Returns the level of this block; the search begins with the last levels, which have most blocks.
__device__ __forceinline__ int level_of_block(int kernel) {
    int number = LEVELS - 1;
    while (int(blockIdx.x) < image_levels[number].first_block_of[kernel]) --number;
    return number;
}

// Pixels along an axis that are next to a corner: those before `middle` are in the cell before the
// corner, and their weight is their part; the others are in the cell after it, with 1 - part.
struct Span {
    int first, middle, last;

    __device__ __forceinline__ float weight(const float* parts, int pixel) const {
        return pixel < middle ? parts[pixel] : 1.0f - parts[pixel];
    }
};

// Sums gradients along lines: one sum for each line of pixels and column of corners. Grid:
// (blocks,).
extern "C" __global__ __launch_bounds__(THREADS) void grid_line_sums(
    const element* __restrict__ gradients, const Span* __restrict__ spans,
    const float* __restrict__ parts, Features* __restrict__ sums) {
    const int number = level_of_block(0);
    const ImageLevel level = image_levels[number];
    const int place = (int(blockIdx.x) - level.first_block_of[0]) * THREADS + int(threadIdx.x);
    const int line = place / level.columns;
    if (line >= HEIGHT) return;
    const Span span = spans[level.first_column + place % level.columns];
    Features sum = {};
    let_later_kernels_start();
#pragma unroll 4
    for (int x = span.first; x < span.last; ++x)
        add_weighted(sum, span.weight(parts + number * WIDTH, x),
                     load_features(gradients, line * WIDTH + x, number));
    sums[level.first_sum + place] = sum;
}

// Computes the gradient of each row of the table, as sums down the lines for the corners that share
// the row. These are in `corners` from starts[row] on, numbered line by line. Grid: (blocks,).
extern "C" __global__ __launch_bounds__(THREADS) void grid_row_sums(
    const Features* __restrict__ sums, const Span* __restrict__ spans,
    const float* __restrict__ parts, const int* __restrict__ starts,
    const int* __restrict__ corners, Features* __restrict__ gradient) {
    const int number = level_of_block(1);
    const ImageLevel level = image_levels[number];
    const int own = (int(blockIdx.x) - level.first_block_of[1]) * THREADS + int(threadIdx.x);
    if (own >= grid_levels[number].rows) return;
    const int row = grid_levels[number].start + own;
    Features total = {};
    const int first = starts[row], end = starts[row + 1];
    wait_for_earlier_kernels();
    for (int i = first; i < end; ++i) {
        const int line = corners[i] / level.columns, column = corners[i] % level.columns;
        const Span span = spans[level.first_line + line];
        const Features* below = sums + level.first_sum + column;
#pragma unroll 4
        for (int y = span.first; y < span.last; ++y)
            add_weighted(total, span.weight(parts + number * HEIGHT, y),
                         below[(long long)y * level.columns]);
    }
    gradient[row] = total;
}
