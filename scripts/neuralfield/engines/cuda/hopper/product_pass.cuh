// A product of linear maps of features, and a relu layer behind it, with everything at hand: what a
// block of product_pass.cu has in shared memory.
//
// Each of two warpgroups takes a tile of 64 points forward and back to the slopes of its factors,
// by itself. Then both add to the gradients of the weights, over the points of both tiles, each for
// half of the columns of every factor and of the relu layer. UNITs of 16 columns of each factor are
// made at a time, so that a thread has all factors of a product.
//
// Constants: FACTORS, FEATURES (real; INPUT_WIDTH is padded to multiples of 64), WIDTH (real;
// PADDED to multiples of 32), PITCH (from factor to factor in parts of gradients), SHARED_BYTES,
// and those of batch.cuh, with 2 for BLOCK_TILES.
#pragma once
#include "batch.cuh"
#include "operands.cuh"
#include "../weight_blocks.cuh"

constexpr int PADDED = width_after[0];
constexpr int OWN = PADDED / BLOCK_TILES;  // columns whose gradients are a warpgroup's, each factor
constexpr int UNIT = 16, UNITS = PADDED / UNIT;
constexpr int ALL_FACTORS = FACTORS * PADDED;  // unit by unit, factor by factor
constexpr int OWN_FACTORS = FACTORS * OWN;
constexpr int SECOND_FOURS = (PADDED + 63) / 64 * OWN / 8;  // sums of a thread, four by four
constexpr int CHUNK_ROWS = 64;  // columns of a table that a transposed product takes

// Features are pairs of columns: sine and cosine of a wave, then a polynomial of x and of y. The
// first polynomial, T_0, is 1, and has its columns where there are no others, too. The first of
// them has the weights of both and the bias, whose gradients are all the same.
constexpr int CONSTANT = 2 * FOURIER_COUNT;
static_assert(CONSTANT < INPUT_WIDTH, "there is a column for the constant");

// Row of the first weight that belongs to a column of the features.
__device__ __forceinline__ int weight_row(int column) {
    return column < CONSTANT ? column % 2 * FOURIER_COUNT + column / 2 : column;
}

__host__ __device__ constexpr int blocks_of(int columns) {
    return (columns + CHUNK_ROWS - 1) / CHUNK_ROWS;
}

__host__ __device__ constexpr int larger(int a, int b) { return a > b ? a : b; }

// Parts of the shared memory, in bytes. Tables are there for each tile.
constexpr int FIRST_WEIGHT_BYTES = 2 * INPUT_WIDTH * ALL_FACTORS;
constexpr int SECOND_WEIGHT_BYTES = 2 * PADDED * PADDED;
constexpr int FACTORS_BYTES = 2 * 64 * ALL_FACTORS;
constexpr int VALUES_BYTES = 2 * 64 * PADDED;
constexpr int FEATURES_BYTES = 2 * 64 * INPUT_WIDTH;

constexpr int FIRST_WEIGHT = 0;
constexpr int SECOND_WEIGHT = FIRST_WEIGHT + FIRST_WEIGHT_BYTES;
constexpr int FACTOR_TABLES = SECOND_WEIGHT + SECOND_WEIGHT_BYTES;  // later their slopes
constexpr int PRODUCTS = FACTOR_TABLES + BLOCK_TILES * FACTORS_BYTES;
constexpr int RELUS = PRODUCTS + BLOCK_TILES * VALUES_BYTES;  // later their slopes
constexpr int FEATURE_TABLES = PRODUCTS;                      // once nobody needs the other two
constexpr int THE_REST = PRODUCTS + BLOCK_TILES * larger(2 * VALUES_BYTES, FEATURES_BYTES);

struct ProductArguments {
    const float2* inputs;
    const float* targets;
    const float* pixel_weights;
    const float* parameters;
    const float* frequencies;
    uint4* features;       // of a block's tiles: [block][INPUT_WIDTH / 16][CONSUMERS]
    float4* second_sums;   // of the second weight's gradient: [block][SECOND_FOURS][CONSUMERS]
    float* first_weight;   // parts of gradients: [block][FEATURES][FACTORS][PITCH]
    float* first_bias;     // [block][FACTORS][PITCH]
    float* second_weight;  // [block][PADDED][PADDED]
    float* second_bias;    // [block][PADDED]
    float* output_weight;  // [block][PADDED][CHANNELS]
    float* output_bias;    // [block][CHANNELS]
    double2* loss_partials;
    Offsets offsets;
};

// Sums over the points of four threads, which have the same.
struct PointSums {
    double loss, squared_error;
    float output_bias[CHANNELS];
};

struct ProductShared {
    ProductArguments arguments;
    float2 turns[FOURIER_COUNT];  // in a unit of x and of y
    __align__(16) float second_bias[PADDED];
    float output_weight[CHANNELS][PADDED], output_bias[CHANNELS];
    __align__(16) __half output_weight_back[16 * PADDED];  // a channel's are a row, in 8 x 8 blocks
    __align__(16) uint4 ones[16];
    // what the threads of a tile tell each other
    uint4 slopes[BLOCK_TILES][64];  // of the output, 8 numbers of each point
    float outputs[BLOCK_TILES][64][CHANNELS];
    // sums over tiles
    float second_bias_sums[PADDED];
    float output_weight_sums[BLOCK_TILES][PADDED][CHANNELS];
    PointSums point_sums[CONSUMERS / 4];
};

// A warpgroup's view of a tile.
struct ProductTile : Points {
    Table table;
    ProductShared& shared;
};

// Where a column of all factors is: unit by unit, factor by factor; columns of a factor.
__device__ __forceinline__ int factor_of(int column) { return column / UNIT % FACTORS; }
__device__ __forceinline__ int place_in_factor(int column) {
    return column / (UNIT * FACTORS) * UNIT + column % UNIT;
}

// Row of a thread's i-th sum: a column of the transposed table.
__device__ __forceinline__ int row_of(const Table& table, int chunk, int i) {
    return CHUNK_ROWS * chunk + 16 * table.warp + 8 * i + table.lane / 4;
}
