// The arguments and shared memory of a block of wide_pass.cu, and a warpgroup's tile.
//
// Constants: those of batch.cuh.
#pragma once
#include "batch.cuh"

// Whether a thread keeps its part of a tile in registers, as the left operand of the next product.
// Registers have no room for more than 128 columns, beside the sums of the product.
constexpr bool IN_REGISTERS = !WGMMA && WIDEST <= 128;

constexpr int ROWS_PITCH = 72;  // 64 rows, and padding that keeps a warp's reads in different banks

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

    // Do nothing if there is no tile in the buffer.
    __device__ __forceinline__ void clear() const {
        if (!IN_REGISTERS) buffer.clear();
    }
    __device__ __forceinline__ void show() const {
        if (!IN_REGISTERS) buffer.show();
    }

    // Takes 16 columns of a layer's inputs (values), or of the gradients of its z, as left operand:
    // pairs as in TileBuffer::put. Gradients of a layer without a matrix are read from the buffer.
    template <int columns, bool are_values>
    __device__ __forceinline__ void take(int layer, int column, const uint32_t (&pairs)[4]) const {
        if (IN_REGISTERS && (are_values || layer >= first_product)) {
            __half* const* tiles =
                are_values ? shared.arguments.values : shared.arguments.gradients;
            send_matrices<columns>(tiles[layer] + size_t(index) * 64 * columns, buffer.warp,
                                   buffer.lane, column, pairs);
#pragma unroll
            for (int i = 0; i < 4; ++i) operand[column / 4 + i] = pairs[i];
        } else {
            buffer.put<columns>(column, pairs);
        }
    }

    // Stores the tile in the buffer to global memory; `take` has stored one in registers.
    template <int columns>
    __device__ __forceinline__ void send(__half* tiles) const {
        if (!IN_REGISTERS)
            store_tile(tiles + size_t(index) * 64 * columns, buffer.tile, 64 * columns * 2);
    }
};

// ---- derivatives -----------------------------------------------------------------------------

// Derivatives of a layer at the points of a thread, kept from the forward to the backward pass: in
// float16, or one bit each for relu. Wavelets keep z instead, because they have twice as many
// derivatives.
template <int columns>
struct Derivatives {
    static constexpr bool are_bits = ACTIVATION == RELU;
    static constexpr int words = are_bits ? (columns + 63) / 64 : columns / 4;
    static constexpr int vectors = (words + 3) / 4;
    uint32_t word[4 * vectors];

    // Keeps the derivatives of 16 columns: z and values are pairs as in TileBuffer::put.
    __device__ __forceinline__ void keep(int column, const float2 (&z)[4], const float2 (&value)[4],
                                         float inverse_frequency) {
#pragma unroll
        for (int pair = 0; pair < 4; ++pair) {
            if constexpr (are_bits) {
                int bit = column / 2 + 2 * pair, place = bit / 32;
                if (bit % 32 == 0) word[place] = 0;
                word[place] |= uint32_t(z[pair].x > 0.0f) << bit % 32;
                word[place] |= uint32_t(z[pair].y > 0.0f) << (bit % 32 + 1);
            } else if constexpr (ACTIVATION == GABOR) {
                word[column / 4 + pair] = pack_saturated(z[pair].x, z[pair].y);
            } else {
                word[column / 4 + pair] =
                    pack_derivatives(derivatives(z[pair], value[pair], inverse_frequency));
            }
        }
    }

    // Gradients of values -> gradients of z.
    __device__ __forceinline__ uint32_t times(int column, int pair, float low, float high,
                                              float inverse_frequency) const {
        if constexpr (are_bits) {
            int bit = column / 2 + 2 * pair;
            uint32_t bits = word[bit / 32] >> bit % 32;
            return pack_saturated(bits & 1 ? low : 0.0f, bits & 2 ? high : 0.0f);
        }
        float2 factors = unpack(word[column / 4 + pair]), value = {};
        if constexpr (ACTIVATION == GABOR) {
            const float2 z = factors;
            value = activations(z, inverse_frequency);
            factors = derivatives(z, value, inverse_frequency);
        }
        const float2 gradient = gradients_before(make_float2(low, high), factors, value);
        return pack_saturated(gradient.x, gradient.y);
    }

    // Stores vector number `vector`, which has four words; other calls store the other vectors.
    __device__ __forceinline__ void save(uint4* place, int vector) const {
        place[vector * CONSUMERS] = make_uint4(word[4 * vector], word[4 * vector + 1],
                                               word[4 * vector + 2], word[4 * vector + 3]);
    }

    __device__ __forceinline__ void load(const uint4* place) {
#pragma unroll
        for (int vector = 0; vector < vectors; ++vector) {
            uint4 four = place[vector * CONSUMERS];
            word[4 * vector] = four.x;
            word[4 * vector + 1] = four.y;
            word[4 * vector + 2] = four.z;
            word[4 * vector + 3] = four.w;
        }
    }
};

// ---- sums over points that are too small for the layers' matrix products ---------------------

// Stores, for each vector, its numbers for the two points of this thread.
template <int count>
__device__ __forceinline__ void store_rows(__half (*left)[ROWS_PITCH], const TileBuffer& buffer,
                                           const float (&numbers)[2][count]) {
    if (buffer.lane % 4 == 0)
#pragma unroll
        for (int v = 0; v < count; ++v)
#pragma unroll
            for (int i = 0; i < 2; ++i)
                left[v][16 * buffer.warp + 8 * i + buffer.lane / 4] = __ushort_as_half(
                    static_cast<unsigned short>(pack_saturated(numbers[i][v], 0.0f)));
}

// vectors += (stored numbers) x (the tile in the buffer); warps take blocks of columns in turn.
template <int columns, int products>
__device__ __forceinline__ void add_vectors(const TileBuffer& buffer,
                                            const __half (*left)[8][ROWS_PITCH],
                                            float (*vectors)[WIDEST], int count) {
    constexpr int block_row = columns / 8 * 128;
    const int row = buffer.lane / 4, own_rows = buffer.lane % 4 * 2;
    uint32_t operand[products][8];
#pragma unroll
    for (int product = 0; product < products; ++product)
#pragma unroll
        for (int k = 0; k < 8; ++k)
            operand[product][k] =
                *reinterpret_cast<const uint32_t*>(&left[product][row][8 * k + own_rows]);
    const uint32_t address =
        shared_address(buffer.tile) + buffer.lane % 8 * 16 + buffer.lane / 8 * block_row;
#pragma unroll 2
    for (int j = buffer.warp; j < columns / 8; j += 4) {
        float sums[4][4] = {};
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            uint32_t rows[4];
            load_matrices<true>(rows, address + half * 4 * block_row + j * 128);
#pragma unroll
            for (int product = 0; product < products; ++product) {
                const uint32_t* own = operand[product] + 4 * half;
                warp_product(sums[2 * half], own[0], own[1], rows[0], rows[1]);
                warp_product(sums[2 * half + 1], own[2], own[3], rows[2], rows[3]);
            }
        }
        if (row < count) {
            float2* place = reinterpret_cast<float2*>(&vectors[row][8 * j + own_rows]);
            *place =
                make_float2(place->x + ((sums[0][0] + sums[1][0]) + (sums[2][0] + sums[3][0])),
                            place->y + ((sums[0][1] + sums[1][1]) + (sums[2][1] + sums[3][1])));
        }
    }
}
