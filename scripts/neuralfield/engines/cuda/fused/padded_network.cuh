// A network over tiles of 64 points. A tile's values are in shared memory or registers, as the left
// operand of the next matrix product, weights are streamed through shared memory, and sums and
// activations are in registers.
//
// Constants: REAL_WIDTHS (without padding), ACTIVATION (of all layers), FREQUENCIES,
// INVERSE_FREQUENCIES, FOURIER_COUNT, CHANNELS, and those of sizes.cuh, stream.cuh, activations.cuh
// and loss.cuh.
//
// Thread `lane` of warp w has rows 16 w + lane / 4 (and 8 below it) of its tile, and of every 8
// columns the two at 2 (lane % 4): sums[4 j + 2 i + e] is row i, column 8 j + e.
#pragma once
#include "stream.cuh"
#include "../activations.cuh"
#include "../loss.cuh"

__constant__ float inverse_frequencies[HIDDEN] = INVERSE_FREQUENCIES;

__device__ __forceinline__ uint32_t pack_values(float2 values) {
    return IS_BOUNDED ? pack(values.x, values.y) : pack_saturated(values.x, values.y);
}

__device__ __forceinline__ uint32_t pack_derivatives(float2 factors) {
    return HAS_BOUNDED_DERIVATIVES ? pack(factors.x, factors.y)
                                   : pack_saturated(factors.x, factors.y);
}

// ---- a tile's buffer ------------------------------------------------------------------------

// The buffer in shared memory in which the threads of a tile store values for each other.
struct TileBuffer {
    char* tile;      // 64 rows in blocks of 8 x 8 numbers, row by row of blocks
    int number;      // of the tile in its block
    int warp, lane;  // of this thread; a warp is 0 to 3

    __device__ __forceinline__ void sync() const { named_sync<128>(1 + number); }
    __device__ __forceinline__ bool is_first() const { return threadIdx.x % 128 == 0; }

    // Stores 16 of a tile's `columns` columns: pairs[2 j + i] is row i of the j-th 8 columns.
    template <int columns>
    __device__ __forceinline__ void put(int column, const uint32_t (&pairs)[4]) const {
        store_matrices<columns>(shared_address(tile), warp, lane, column, pairs);
    }

    // Waits, before a tile is stored, until all threads have finished with the tile before.
    __device__ __forceinline__ void clear() const {
        if (is_first()) bulk_stores_read();
        sync();
    }

    // Makes a tile that has been stored visible to all threads and products of the tile.
    __device__ __forceinline__ void show() const {
        fence_shared();
        sync();
    }
};

// ---- the layers ----------------------------------------------------------------------------

// Numbers in shared memory that all threads of a block read repeatedly. For their order see
// place_of_constant.
struct __align__(16) Constants {
    float x_weight[WIDEST];  // first layer without a matrix: z = x wx + y wy + bias
    float y_weight[WIDEST];  // features: frequencies in radians
    float phase[WIDEST];     // features: 0 for sines, a quarter turn for cosines
    float bias[HIDDEN][WIDEST];
    float output_weight[CHANNELS][WIDEST];
    float output_bias[CHANNELS];
};

// Indices of parameters in the flat array; a bias of -1: none.
struct Offsets {
    int weight[HIDDEN + 1], bias[HIDDEN + 1];
};

// Returns the index of a column's constant, so that a thread loads its four of 16 columns at once.
__device__ __forceinline__ int place_of_constant(int column) {
    return column / 16 * 16 + column % 8 / 2 * 4 + column % 16 / 8 * 2 + column % 2;
}

// Fills the constants; called by the first `threads` threads of a block. All numbers of a column
// are loaded before the first is stored, because a load after a store would wait for it.
__device__ inline void load_constants(Constants& constants, const float* parameters,
                                      const float* frequencies, const Offsets& offsets,
                                      int threads) {
    constexpr int real_widths[HIDDEN] = REAL_WIDTHS;
    constexpr float factors[HIDDEN] = FREQUENCIES;
    const int first = real_widths[0], last = real_widths[HIDDEN - 1];
    for (int i = threadIdx.x; i < WIDEST; i += threads) {
        float x = 0.0f, y = 0.0f, phase = 0.0f, shift = 0.0f;
        float bias[HIDDEN], output_weight[CHANNELS], output_bias = 0.0f;
        if (ENCODING == FOURIER) {
            const float turn = 6.283185307f;
            int frequency = i < FOURIER_COUNT ? i : i - FOURIER_COUNT;
            if (frequency < FOURIER_COUNT) {
                x = turn * frequencies[frequency];
                y = turn * frequencies[FOURIER_COUNT + frequency];
                phase = i < FOURIER_COUNT ? 0.0f : turn / 4;
            }
        } else if (!has_features && i < first) {
            const float* weight = parameters + offsets.weight[0] + (ENCODING == CORNERS) * first;
            x = factors[0] * weight[i];
            y = factors[0] * weight[first + i];
            if (ENCODING == CORNERS) shift = factors[0] * parameters[offsets.weight[0] + i];
        }
#pragma unroll
        for (int layer = 0; layer < HIDDEN; ++layer) {
            bias[layer] = layer == 0 ? shift : 0.0f;
            if (offsets.bias[layer] >= 0 && i < real_widths[layer])
                bias[layer] += factors[layer] * parameters[offsets.bias[layer] + i];
        }
#pragma unroll
        for (int channel = 0; channel < CHANNELS; ++channel)
            output_weight[channel] =
                i < last ? parameters[offsets.weight[HIDDEN] + i * CHANNELS + channel] : 0.0f;
        if (i < CHANNELS && offsets.bias[HIDDEN] >= 0)
            output_bias = parameters[offsets.bias[HIDDEN] + i];

        const int place = place_of_constant(i);
        constants.x_weight[place] = x;
        constants.y_weight[place] = y;
        constants.phase[place] = phase;
#pragma unroll
        for (int layer = 0; layer < HIDDEN; ++layer) constants.bias[layer][place] = bias[layer];
#pragma unroll
        for (int channel = 0; channel < CHANNELS; ++channel)
            constants.output_weight[channel][place] = output_weight[channel];
        if (i < CHANNELS) constants.output_bias[i] = output_bias;
    }
}

// The first column of this thread in every 8.
__device__ __forceinline__ int own_column() { return threadIdx.x % 4 * 2; }

// A thread's pair of the first 8 of 16 columns, and that of the others.
struct ConstantPairs {
    float2 of[2];
};

__device__ __forceinline__ ConstantPairs constants_at(const float* constants, int column) {
    const float4 four = *reinterpret_cast<const float4*>(constants + column + 2 * own_column());
    return {make_float2(four.x, four.y), make_float2(four.z, four.w)};
}

// Calls `work` for every 16 columns, with a thread's pairs of each row of constants. The pairs are
// loaded before `work` is called for the 16 columns before, because the compiler cannot move loads
// over stores.
template <int columns, int rows, typename Work>
__device__ __forceinline__ void for_constants(const float* const (&constants)[rows],
                                              const Work& work) {
    ConstantPairs next[rows];
#pragma unroll
    for (int row = 0; row < rows; ++row) next[row] = constants_at(constants[row], 0);
#pragma unroll
    for (int column = 0; column < columns; column += 16) {
        ConstantPairs pairs[rows];
#pragma unroll
        for (int row = 0; row < rows; ++row) {
            pairs[row] = next[row];
            if (column + 16 < columns) next[row] = constants_at(constants[row], column + 16);
        }
        work(column, pairs);
    }
}

// Computes 16 features of the two points of this thread, as pairs for TileBuffer::put.
__device__ __forceinline__ void fourier_features(uint32_t (&pairs)[4], int column,
                                                 const float2 (&points)[2],
                                                 const Constants& constants) {
    const ConstantPairs xs = constants_at(constants.x_weight, column),
                        ys = constants_at(constants.y_weight, column),
                        phases = constants_at(constants.phase, column);
#pragma unroll
    for (int j = 0; j < 2; ++j) {
        const float2 x = xs.of[j], y = ys.of[j], phase = phases.of[j];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            float low = fmaf(points[i].x, x.x, fmaf(points[i].y, y.x, phase.x));
            float high = fmaf(points[i].x, x.y, fmaf(points[i].y, y.y, phase.y));
            pairs[2 * j + i] = pack(__sinf(low), __sinf(high));
        }
    }
}

// Calls `put` with every 16 features of the two points of this thread, as pairs.
template <typename Put>
__device__ __forceinline__ void encode(const float2 (&points)[2], const Constants& constants,
                                       const Put& put) {
#pragma unroll
    for (int column = 0; column < INPUT_WIDTH; column += 16) {
        uint32_t pairs[4];
        fourier_features(pairs, column, points, constants);
        put(column, pairs);
    }
}

// Computes the sums of a first layer without a matrix; its bias is added with the activation.
__device__ __forceinline__ void place_coordinates(const TileBuffer& buffer, float* sums,
                                                  const float2 (&points)[2],
                                                  const Constants& constants) {
    constexpr int columns = width_after[0];
#pragma unroll
    for (int column = 0; column < columns; column += 16) {
        const ConstantPairs x = constants_at(constants.x_weight, column),
                            y = constants_at(constants.y_weight, column);
#pragma unroll
        for (int j = 0; j < 2; ++j)
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                float* sum = sums + column / 2 + 4 * j + 2 * i;
                sum[0] = fmaf(points[i].x, x.of[j].x, points[i].y * y.of[j].x);
                sum[1] = fmaf(points[i].x, x.of[j].y, points[i].y * y.of[j].y);
            }
    }
}

// Computes the output numbers z of both points. With `keep`, the last hidden layer's z replace the
// sums, and its values are stored in the buffer.
template <bool keep>
__device__ __forceinline__ void output_layer(float (&z)[2][CHANNELS], const TileBuffer& buffer,
                                             float* sums, const Constants& constants) {
    constexpr int layer = HIDDEN - 1, columns = LAST_WIDTH;
#pragma unroll
    for (int channel = 0; channel < CHANNELS; ++channel) z[0][channel] = z[1][channel] = 0.0f;
    const float* rows[1 + CHANNELS] = {constants.bias[layer]};
#pragma unroll
    for (int channel = 0; channel < CHANNELS; ++channel)
        rows[1 + channel] = constants.output_weight[channel];
    if (keep) buffer.clear();
    for_constants<columns>(rows, [&](int column, const ConstantPairs (&own)[1 + CHANNELS]) {
        uint32_t pairs[4];
#pragma unroll
        for (int j = 0; j < 2; ++j) {
            const float2 bias = own[0].of[j];
            float2 value[2];
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                float* sum = sums + column / 2 + 4 * j + 2 * i;
                const float low = sum[0] + bias.x, high = sum[1] + bias.y;
                value[i] = activations(make_float2(low, high), inverse_frequencies[layer]);
                if (keep) {
                    sum[0] = low;
                    sum[1] = high;
                    pairs[2 * j + i] = pack_values(value[i]);
                }
            }
#pragma unroll
            for (int channel = 0; channel < CHANNELS; ++channel) {
                const float2 weight = own[1 + channel].of[j];
#pragma unroll
                for (int i = 0; i < 2; ++i)
                    z[i][channel] =
                        fmaf(value[i].x, weight.x, fmaf(value[i].y, weight.y, z[i][channel]));
            }
        }
        if (keep) buffer.put<columns>(column, pairs);
    });
#pragma unroll
    for (int channel = 0; channel < CHANNELS; ++channel)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            z[i][channel] += __shfl_xor_sync(~0u, z[i][channel], 1);
            z[i][channel] += __shfl_xor_sync(~0u, z[i][channel], 2);
            z[i][channel] += constants.output_bias[channel];
        }
}
