// A network over tiles of 64 points. A tile's values are in shared memory or registers, as the left
// operand of the next matrix product, weights are streamed through shared memory, and sums and
// activations are in registers.
//
// Constants: REAL_WIDTHS (without padding), ACTIVATION (of all layers), FREQUENCIES,
// INVERSE_FREQUENCIES, WAVELET_SCALE, FOURIER_COUNT, CHANNELS, BY_FOURS (the layout of Constants),
// and those of sizes.cuh, stream.cuh and loss.cuh.
//
// Thread `lane` of warp w has rows 16 w + lane / 4 (and 8 below it) of its tile, and of every 8
// columns the two at 2 (lane % 4): sums[4 j + 2 i + e] is row i, column 8 j + e.
#pragma once
#include "stream.cuh"
#include "../loss.cuh"

// ---- activations ---------------------------------------------------------------------------

// Returns NaN if either number is NaN; fmaxf would hide that a training has diverged.
__device__ __forceinline__ float larger_or_nan(float a, float b) {
    float larger;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(a), "f"(b));
    return larger;
}

// The GPU's own instruction: its largest relative error, 2 ** -11, is that of the rounding to
// float16 that follows.
__device__ __forceinline__ float tanh_of(float z) {
    float value;
    asm("tanh.approx.f32 %0, %1;" : "=f"(value) : "f"(z));
    return value;
}

// The GPU's own exponential, without the steps of __expf for results outside the range of float16.
__device__ __forceinline__ float power_of_2(float x) {
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
    return power;
}

// One for each layer. The growth of a variable sine depends on z without the layer's frequency.
__constant__ float inverse_frequencies[HIDDEN] = INVERSE_FREQUENCIES;

__device__ __forceinline__ float growth_of_sine(float z, float inverse_frequency) {
    return fmaf(fabsf(z), inverse_frequency, 1.0f);
}

// z is already multiplied by the layer's frequency.
template <int name>
__device__ __forceinline__ float activation(float z, float inverse_frequency) {
    static_assert(SINE <= name && name <= GAUSSIAN, "an activation that has no code here");
    if constexpr (name == SINE) return __sinf(z);
    if constexpr (name == TANH) return tanh_of(z);
    if constexpr (name == RELU) return larger_or_nan(z, 0.0f);
    if constexpr (name == VARIABLE_SINE) return __sinf(z * growth_of_sine(z, inverse_frequency));
    if constexpr (name == GAUSSIAN) return __expf(-z * z);
    return __fdividef(1.0f, 1.0f + __expf(-z));
}

__device__ __forceinline__ float decay_of_wavelet(float inverse_frequency) {
    const float narrowness = float(WAVELET_SCALE) * inverse_frequency;
    return narrowness * narrowness;
}

// The activations of two neighbouring columns, which for wavelets are the real and imaginary part
// of a complex z: exp(i z - (WAVELET_SCALE / frequency * |z|) ** 2).
template <int name>
__device__ __forceinline__ float2 activations(float low, float high, float inverse_frequency) {
    if constexpr (name == GABOR) {
        const float log2_e = 1.442695041f, square = fmaf(low, low, high * high);
        const float factor = -log2_e * decay_of_wavelet(inverse_frequency);
        const float size = power_of_2(fmaf(factor, square, -log2_e * high));
        return make_float2(size * __cosf(low), size * __sinf(low));
    } else {
        return make_float2(activation<name>(low, inverse_frequency),
                           activation<name>(high, inverse_frequency));
    }
}

// Packs values as float16, saturated for relu, which is the only activation without a bound.
__device__ __forceinline__ uint32_t pack_values(float low, float high) {
    return ACTIVATION == RELU ? pack_saturated(low, high) : pack(low, high);
}

// The derivative with respect to z, given z and the value.
template <int name>
__device__ __forceinline__ float derivative(float z, float value, float inverse_frequency) {
    if constexpr (name == SINE) return __cosf(z);
    if constexpr (name == VARIABLE_SINE) {
        const float growth = growth_of_sine(z, inverse_frequency);
        return __cosf(z * growth) * fmaf(2.0f, growth, -1.0f);
    }
    if constexpr (name == GAUSSIAN) return -2.0f * z * value;
    if constexpr (name == TANH) return 1.0f - value * value;
    if constexpr (name == RELU) return z > 0.0f ? 1.0f : 0.0f;
    return value * (1.0f - value);
}

// Gradients of two neighbouring columns' values -> gradients of their z.
template <int name>
__device__ __forceinline__ float2 gradients_before(float2 gradient, float2 z, float2 value,
                                                   float inverse_frequency) {
    if constexpr (name == GABOR) {
        const float along = gradient.x * value.x + gradient.y * value.y;
        const float across = gradient.y * value.x - gradient.x * value.y;
        const float factor = -2.0f * decay_of_wavelet(inverse_frequency);
        return make_float2(fmaf(factor * z.x, along, across), fmaf(factor, z.y, -1.0f) * along);
    } else {
        return make_float2(gradient.x * derivative<name>(z.x, value.x, inverse_frequency),
                           gradient.y * derivative<name>(z.y, value.y, inverse_frequency));
    }
}

// Packs derivatives as float16, saturated for a variable sine, whose derivatives alone are
// unbounded.
__device__ __forceinline__ uint32_t pack_derivatives(float low, float high) {
    return ACTIVATION == VARIABLE_SINE ? pack_saturated(low, high) : pack(low, high);
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

    // Stores 16 columns of values, whose two halves lie one after the other: see first_half.
    template <int columns>
    __device__ __forceinline__ void put_values(int column, const uint32_t (&pairs)[4]) const {
        constexpr int half = first_half(columns);
        const uint32_t first = shared_address(tile);
        if (column < half)
            store_matrices<half>(first, warp, lane, column, pairs);
        else
            store_matrices<columns - half>(first + 64 * half * 2, warp, lane, column - half, pairs);
    }

    // Waits, before a tile is stored, until all threads have finished with the tile before.
    __device__ __forceinline__ void clear() const {
        if (is_first()) bulk_stores_read();
        sync();
    }

    // As `clear`, for cases in which, with products of warps, each warp has read only its own rows
    // of the tile before. It then need not wait for the other warps, unless the tiles have
    // different widths, in which its rows lie at other addresses.
    __device__ __forceinline__ void clear_rows() const {
#if WARP_PRODUCTS
        if (has_one_width()) {
            __syncwarp();
            return;
        }
#endif
        clear();
    }

    __device__ __forceinline__ void show_rows() const {
#if WARP_PRODUCTS
        __syncwarp();
#else
        show();
#endif
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

// Returns the index of a column's constant. With BY_FOURS, a thread loads its four of 16 columns at
// once; otherwise constants are in the order of columns. Which is faster was measured for each
// kernel.
__device__ __forceinline__ int place_of_constant(int column) {
    return BY_FOURS ? column / 16 * 16 + column % 8 / 2 * 4 + column % 16 / 8 * 2 + column % 2
                    : column;
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

__device__ __forceinline__ float2 pair_at(const float* values, int column) {
    return *reinterpret_cast<const float2*>(values + column);
}

// The first column of this thread in every 8.
__device__ __forceinline__ int own_column() { return threadIdx.x % 4 * 2; }

// A thread's pair of the first 8 of 16 columns, and that of the others.
struct ConstantPairs {
    float2 of[2];
};

__device__ __forceinline__ ConstantPairs constants_at(const float* constants, int column) {
    if (!BY_FOURS) {
        const float* own = constants + column + own_column();
        return {pair_at(own, 0), pair_at(own, 8)};
    }
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
    if (keep) buffer.clear_rows();
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
                value[i] = activations<ACTIVATION>(low, high, inverse_frequencies[layer]);
                if (keep) {
                    sum[0] = low;
                    sum[1] = high;
                    pairs[2 * j + i] = pack_values(value[i].x, value[i].y);
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
