// What a block of hopper_pass.cu is given and has in shared memory, and what a warpgroup knows of
// its tile.
//
// Constants: PIXELS, POINTS, TILE_PIXELS, WEIGHTED, and those of hopper_network.cuh.
#pragma once
#include "hopper_network.cuh"
#include "hopper_vectors.cuh"

constexpr int ALL_CONSUMERS = 15;  // name of their barrier
constexpr bool RESIDENT = is_resident<true>();
constexpr int COORDINATE_VECTORS = ENCODING == FOURIER ? 0 : 3;  // sums of slopes, times x, times y
constexpr int VECTORS = CHANNELS + COORDINATE_VECTORS;

struct Arguments {
    const float2* inputs;
    const float* targets;
    const float* pixel_weights;
    const float* parameters;
    const float* frequencies;
    const char* weights;          // the stream: see hopper_pack.cu
    __half* values[HIDDEN];       // inputs of each layer with a matrix
    __half* slopes[HIDDEN];       // of the loss, with respect to its outputs
    uint4* derivatives;           // of activations, kept from forward to backward
    float* vector_partials;       // [block], each [WIDEST][CHANNELS] of the output
                                  // and [COORDINATE_VECTORS][WIDEST] of the input
    float* output_bias_partials;  // [block][CHANNELS]
    double2* loss_partials;       // [block]
    Offsets offsets;
};

struct Shared {
    Arguments arguments;
    Constants constants;
    __align__(16) float vectors[BLOCK_TILES][VECTORS][WIDEST];
    // output slopes, coordinates, and these's rounding errors, as left operands
    __half left[BLOCK_TILES][3][8][ROWS_PITCH];
    float outputs[BLOCK_TILES][64][CHANNELS];  // values of all points, for pixels' means
    double losses[4 * BLOCK_TILES][2];
    float output_bias[4 * BLOCK_TILES][CHANNELS];
    uint64_t filled[STAGES], emptied[STAGES];
};

struct Tile {
    const Table& table;
    Shared& shared;
    const Stream& stream;
    RingPlace& place;
    int index;
    uint4* derivatives;  // this thread's part
    float2 points[2];
    float targets[2][CHANNELS], weights[2];

    // Pixel of a row in the batch; -1: the row is not valid.
    __device__ __forceinline__ int pixel_of(int row) const {
        int pixel = index * TILE_PIXELS + row / POINTS;
        return row < TILE_PIXELS * POINTS && pixel < PIXELS ? pixel : -1;
    }

    // What belongs to this thread's points is on its way long before it is needed.
    __device__ __forceinline__ void fetch() {
        const Arguments& arguments = shared.arguments;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            int row = 16 * table.warp + 8 * i + table.lane / 4, pixel = pixel_of(row);
            points[i] = arguments.inputs[index * 64 + row];
            weights[i] = WEIGHTED && pixel >= 0 ? arguments.pixel_weights[pixel] : 1.0f;
#pragma unroll
            for (int channel = 0; channel < CHANNELS; ++channel)
                targets[i][channel] =
                    pixel >= 0 ? arguments.targets[pixel * CHANNELS + channel] : 0.0f;
        }
    }

    __device__ __forceinline__ uint4* kept(int layer) const {
        return derivatives + size_t(layer) * (WIDEST / 16) * CONSUMERS;
    }

    // Take what is on the table to global memory.
    template <int columns>
    __device__ __forceinline__ void send(__half* tiles) const {
        if (table.is_first())
            bulk_store(tiles + size_t(index) * 64 * columns, table.tile, 64 * columns * 2);
    }
};
