// A product of linear maps of features, and a relu layer behind it, with everything at hand: what a
// block of hopper_product.cu has in shared memory.
//
// Two warpgroups work on one tile of 64 points. Each has half of the columns: of each factor, of
// their product, and of the relu layer. UNITs of 16 columns of each factor are made at a time, so
// that a thread has all factors of a product.
//
// Constants: FACTORS, FEATURES (real; INPUT_WIDTH is padded to multiples of 64), WIDTH (real; PADDED
// to multiples of 32), CHEBYSHEV_DEGREE, and those of hopper_batch.cuh, with BLOCK_TILES for the
// warpgroups.
#pragma once
#include "hopper_batch.cuh"
#include "hopper_operands.cuh"
#include "weight_blocks.cuh"

constexpr int PADDED = width_after[0];
constexpr int OWN = PADDED / 2;  // columns of a warpgroup, in each factor
constexpr int UNIT = 16, UNITS = OWN / UNIT;
constexpr int OWN_FACTORS = FACTORS * OWN;  // in all of them, unit by unit, factor by factor
constexpr int ALL_FACTORS = FACTORS * PADDED;
constexpr int CHUNK_ROWS = 64;  // columns of a table that a transposed product takes

constexpr int WAVES = 2 * FOURIER_COUNT;  // columns of sines, then of cosines
// Behind them is T_0(x) and, where there are polynomials, T_0(y): both are 1. The first has the
// weights of both and the bias, whose gradients are all the same.
constexpr int CONSTANT = WAVES;
static_assert(CONSTANT < INPUT_WIDTH, "there is a column for the constant");

__host__ __device__ constexpr int blocks_of(int columns) {
    return (columns + CHUNK_ROWS - 1) / CHUNK_ROWS;
}

// Parts of the shared memory, in bytes.
constexpr int FIRST_WEIGHT_BYTES = 2 * INPUT_WIDTH * ALL_FACTORS;
constexpr int SECOND_WEIGHT_BYTES = 2 * PADDED * PADDED;
constexpr int SECOND_SUMS_BYTES = 4 * PADDED * PADDED;
constexpr int FEATURES_BYTES = 2 * 64 * INPUT_WIDTH;
constexpr int FACTORS_BYTES = 2 * 64 * OWN_FACTORS;
constexpr int VALUES_BYTES = 2 * 64 * PADDED;

constexpr int FIRST_WEIGHT = 0;
constexpr int SECOND_WEIGHT = FIRST_WEIGHT + FIRST_WEIGHT_BYTES;
constexpr int FACTOR_TABLES = SECOND_WEIGHT + SECOND_WEIGHT_BYTES;
constexpr int PRODUCTS = FACTOR_TABLES + 2 * FACTORS_BYTES;
constexpr int RELUS = PRODUCTS + VALUES_BYTES;  // later their slopes
constexpr int FEATURE_TABLES = RELUS + VALUES_BYTES;
constexpr int SECOND_SUMS = FEATURE_TABLES + 2 * FEATURES_BYTES;
constexpr int THE_REST = SECOND_SUMS + SECOND_SUMS_BYTES;

struct ProductArguments {
    const float2* inputs;
    const float* targets;
    const float* pixel_weights;
    const float* parameters;
    const float* frequencies;
    float* first_weight;   // parts of gradients: [block][FEATURES][FACTORS][PADDED]
    float* first_bias;     // [block][FACTORS][PADDED]
    float* second_weight;  // [block][PADDED][PADDED]
    float* second_bias;    // [block][PADDED]
    float* output_weight;  // [block][PADDED][CHANNELS]
    float* output_bias;    // [block][CHANNELS]
    double2* loss_partials;
    Offsets offsets;
};

struct ProductShared {
    ProductArguments arguments;
    __align__(16) float turns[2][INPUT_WIDTH];  // in a unit of x and of y
    float second_bias[PADDED];
    float output_weight[CHANNELS][PADDED], output_bias[CHANNELS];
    uint4 ones[16];
    // sums over tiles
    float second_bias_sums[PADDED];
    float output_weight_sums[PADDED][CHANNELS];
    double losses[4][2];
    float output_bias_sums[4][CHANNELS];
};

// What the two warpgroups tell each other of a tile, and each its own threads; in place of the
// next tile's features, until these are made.
struct Notes {
    uint4 slopes[2][64];            // of the output, 8 numbers of each point
    float shares[2][64][CHANNELS];  // of the output numbers, from a warpgroup's columns
    float outputs[2][64][CHANNELS];
};
static_assert(sizeof(Notes) <= FEATURES_BYTES, "notes have room in a table of features");

// A warpgroup's view of a tile.
struct ProductTile : Points {
    Table table;
    Notes& shared;  // under the name that loss_of_points knows
};

// Where a column of a warpgroup's factors is in its factor: unit by unit, factor by factor.
__device__ __forceinline__ int factor_of(int column) { return column / UNIT % FACTORS; }
__device__ __forceinline__ int own_place(int column) {
    return column / (UNIT * FACTORS) * UNIT + column % UNIT;
}

// Row of a thread's i-th sum: a column of the transposed table.
__device__ __forceinline__ int row_of(const Table& table, int chunk, int i) {
    return CHUNK_ROWS * chunk + 16 * table.warp + 8 * i + table.lane / 4;
}
