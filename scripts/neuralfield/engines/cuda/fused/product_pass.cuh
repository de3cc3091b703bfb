// The arguments and shared memory of a block of product_pass.cu, and a warp's part of its tile.
//
// Constants: FACTORS (of the product), SHARED_BYTES, and those of batch.cuh.
#pragma once
#include "narrow_output.cuh"

constexpr int COLUMNS = width_after[0];  // of each factor, and of each layer
constexpr int GROUPS = COLUMNS / 16, OWN_GROUPS = (GROUPS + 1) / 2;
constexpr int RELUS = HIDDEN - 1;
constexpr int FIRST_PAIR = 8;  // named barrier of the first pair
static_assert(FACTORS * COLUMNS % 16 == 0 && BLOCK_TILES == 2, "warps in pairs");

// A tile's buffers: features; factors, which their gradients overwrite; inputs of the layers from
// the first relu layer to the output; gradients of relu layers, of which those of the last layer
// overwrite the output's inputs.
constexpr int FACTORS_PLACE = 64 * INPUT_WIDTH * 2;
constexpr int VALUES_PLACE = FACTORS_PLACE + 64 * FACTORS * COLUMNS * 2;
constexpr int BUFFER_BYTES = 64 * COLUMNS * 2;
constexpr int BUFFERS_BYTES = VALUES_PLACE + BUFFER_BYTES * (RELUS > 0 ? 2 * RELUS : 1);

struct Arguments : BatchArguments {
    const uint4* forward[HIDDEN];    // weights as right operands: see place_in_operands
    const uint4* backward[HIDDEN];   // their transposes; of the first layer: none
    float* weight_partials[HIDDEN];  // [block][fan_in][width], both padded
    float* bias_partials[HIDDEN];    // [block][width]
    float* vector_partials;          // [block][WIDEST][CHANNELS] of the output
    float* output_bias_partials;     // [block][CHANNELS]
    double2* loss_partials;          // [block]
    Offsets offsets;
};

struct Shared {
    Arguments arguments;
    Constants constants;
    __align__(16) float factor_bias[FACTORS][COLUMNS];
    __align__(16) __half output[OUTPUT_COLUMNS * LAST_WIDTH];  // see put_output
    // sums of each pair, for the gradients of the output's weights and of the biases
    __align__(16) float vectors[4][CHANNELS + RELUS][WIDEST];
    float outputs[BLOCK_TILES][64][CHANNELS];  // values of all points, for pixels' means
    double losses[4 * BLOCK_TILES][2];
    float output_bias[4 * BLOCK_TILES][CHANNELS];
};

static_assert(sizeof(Shared) <= SHARED_BYTES, "the host has to count more");

__host__ __device__ constexpr int place_of_bias(int layer) { return CHANNELS + RELUS - layer; }

struct Tile : PointsOf<true> {
    char* buffers;
    Shared& shared;
    TileBuffer buffer;  // of the features; its number is that of a warp in its pair

    __device__ __forceinline__ TileBuffer buffer_at(int bytes) const {
        return {buffers + bytes, buffer.number, buffer.warp, buffer.lane};
    }
    __device__ __forceinline__ TileBuffer factors() const { return buffer_at(FACTORS_PLACE); }
    // The input values of layer 1 and of all layers after it, including the output.
    __device__ __forceinline__ TileBuffer values(int layer) const {
        return buffer_at(VALUES_PLACE + (layer - 1) * BUFFER_BYTES);
    }
    __device__ __forceinline__ TileBuffer gradients(int layer) const {
        return values(layer == RELUS ? HIDDEN : HIDDEN + layer);
    }

    // Waits for the other warp of the pair.
    __device__ __forceinline__ void pair_sync() const { named_sync<64>(FIRST_PAIR + buffer.warp); }

    // Calls `work` for each of this warp's groups of 16 columns, with its index and first column.
    template <typename Work>
    __device__ __forceinline__ void for_own_groups(const Work& work) const {
#pragma unroll
        for (int group = 0; group < OWN_GROUPS; ++group) {
            const int column = 16 * buffer.number + 32 * group;
            if (GROUPS % 2 == 0 || column < COLUMNS) work(group, column);
        }
    }
};
