// The arguments and shared memory of a block of wide_pass.cu, and a warpgroup's tile.
//
// Constants: those of batch.cuh.
#pragma once
#include "batch.cuh"
#include "vectors.cuh"

constexpr bool RESIDENT = is_resident<true>();

// Whether a thread keeps its part of a tile in registers, as the left operand of the next product.
// Registers have no room for more than 128 columns, beside the sums of the product.
constexpr bool IN_REGISTERS = WARP_PRODUCTS && WIDEST <= 128;

// Counters that the pass increments, and that weight_gradients.cu reads and then resets to zero.
struct Counters {
    unsigned full, last;  // warpgroups that have stored their tiles of the full waves, or the last
    unsigned read;        // blocks of weight_gradients.cu that no longer read the counters
};

struct Arguments : BatchArguments {
    const char* weights;          // the stream: see pack.cu
    __half* values[HIDDEN];       // inputs of each layer with a matrix
    __half* gradients[HIDDEN];    // of the loss, with respect to the layer's z
    uint4* derivatives;           // of activations, kept from forward to backward
    float* vector_partials;       // [block], each [WIDEST][CHANNELS] of the output
                                  // and [COORDINATE_VECTORS][WIDEST] of the input
    float* output_bias_partials;  // [block][CHANNELS]
    double2* loss_partials;       // [block]
    Counters* counters;
    Offsets offsets;
};

struct Shared {
    Arguments arguments;
    Constants constants;
    __align__(16) float vectors[BLOCK_TILES][VECTORS][WIDEST];
    // output gradients, coordinates, and their rounding errors, as left operands
    __half left[BLOCK_TILES][3][8][ROWS_PITCH];
    float outputs[BLOCK_TILES][64][CHANNELS];  // values of all points, for pixels' means
    double losses[4 * BLOCK_TILES][2];
    float output_bias[4 * BLOCK_TILES][CHANNELS];
    uint64_t filled[STAGES], emptied[STAGES];
};

struct Tile : Points {
    const TileBuffer& buffer;
    Shared& shared;
    const Stream& stream;
    StreamPlace& place;
    uint4* derivatives;  // this thread's part
    uint32_t* operand;   // of the next product, if it is kept in registers

    __device__ __forceinline__ uint4* kept(int layer) const {
        return derivatives + size_t(layer) * (WIDEST / 16) * CONSUMERS;
    }

    // The left operand of the next product.
    __device__ __forceinline__ auto left() const {
        if constexpr (IN_REGISTERS)
            return static_cast<const uint32_t*>(operand);
        else
            return static_cast<const char*>(buffer.tile);
    }

    __device__ __forceinline__ void clear_rows() const {
        if (!IN_REGISTERS) buffer.clear_rows();
    }
    __device__ __forceinline__ void show_rows() const {
        if (!IN_REGISTERS) buffer.show_rows();
    }

    // Takes 16 columns of a layer's inputs (values), or of the gradients of its z, as left operand:
    // pairs as in TileBuffer::put. Gradients of a layer without a matrix are read from the buffer.
    template <int columns, bool are_values>
    __device__ __forceinline__ void take(int layer, int column, const uint32_t (&pairs)[4]) const {
#if WARP_PRODUCTS
        if (IN_REGISTERS && (are_values || layer >= first_product)) {
            __half* const* tiles =
                are_values ? shared.arguments.values : shared.arguments.gradients;
            send_matrices<columns>(tiles[layer] + size_t(index) * 64 * columns, buffer.warp,
                                   buffer.lane, column, pairs);
#pragma unroll
            for (int i = 0; i < 4; ++i) operand[column / 4 + i] = pairs[i];
            return;
        }
#endif
        if (are_values)
            buffer.put_values<columns>(column, pairs);
        else
            buffer.put<columns>(column, pairs);
    }

    // Stores the tile in the buffer to global memory; `take` has stored one in registers.
    template <int columns>
    __device__ __forceinline__ void send(__half* tiles) const {
        if (!IN_REGISTERS)
            store_tile(tiles + size_t(index) * 64 * columns, buffer.tile, 64 * columns * 2);
    }
};
