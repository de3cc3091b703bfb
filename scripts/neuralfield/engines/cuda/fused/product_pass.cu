// Fused forward pass, loss and backward pass of one batch, with the gradients of all weights, for a
// product of linear maps of features and relu layers after it, all with the same number of columns.
//
// A block works on one tile of 64 points at a time, from its features to the sums of the gradients,
// which stay in registers over all its tiles. Each of 4 pairs of warps has 16 of the points, and
// each warp of a pair has every other 16 columns; both warps compute the loss, and the first one
// counts it. Then the sums over the 64 points are distributed over all 8 warps. Weights are loaded
// from global memory in the layout that products need: they are in the L1 cache.
//
// Gradients are those of the sum over the batch, times GRADIENT_SCALE, which keeps small ones out
// of float16's subnormal numbers.
//
// Constants: FEATURES (that have weights, padded), and those of product_pass.cuh.
#include "product_pass.cuh"
#include "../warps/weight_sums.cuh"

// ---- products of a warp's rows -------------------------------------------------------------------

// sums[part] (16 x 16) += (rows of a buffer) x (16 columns of a matrix, the first of which is
// column + part * step); see place_in_operands.
template <int buffer_columns, int rows, int step, int parts>
__device__ __forceinline__ void multiply(float (&sums)[parts][8], const TileBuffer& buffer,
                                         const uint4* matrix, int column) {
    const uint4* own = matrix + column / 16 * (rows / 16) * 32 + buffer.lane;
#pragma unroll
    for (int k = 0; k < rows / 16; ++k) {
        uint32_t operand[4];
        load_operand<buffer_columns>(operand, buffer, 16 * k);
#pragma unroll
        for (int part = 0; part < parts; ++part) {
            const uint4 right = __ldg(own + (part * step / 16 * (rows / 16) + k) * 32);
            add_product(sums[part], operand, right.x, right.y);
            add_product(sums[part] + 4, operand, right.z, right.w);
        }
    }
}

__device__ __forceinline__ void add_biases(float* sums, const float* biases, int column) {
    const ConstantPairs pairs = constants_at(biases, column);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        sums[2 * i] += pairs.of[i / 2].x;
        sums[2 * i + 1] += pairs.of[i / 2].y;
    }
}

// Sums over a warp's 16 points of its columns times the numbers of several vectors.
struct VectorSums {
    float sums[OWN_GROUPS][2][2] = {};

    // Vectors are rows of the left operand: `low` has the numbers of the first 8 points.
    __device__ __forceinline__ void add(const Tile& tile, const TileBuffer& buffer, uint32_t low,
                                        uint32_t high) {
        constexpr int block_row = COLUMNS / 8 * 128;
        tile.for_own_groups([&](int group, int column) {
            uint32_t right[4];
            load_right<1>(right, block_matrix(shared_address(buffer.tile) + column * 16 +
                                                  2 * buffer.warp * block_row,
                                              block_row, 128));
#pragma unroll
            for (int j = 0; j < 2; ++j) {
                float own[4] = {};
                warp_product(own, low, high, right[2 * j], right[2 * j + 1]);
                sums[group][j][0] += own[0];
                sums[group][j][1] += own[1];
            }
        });
    }

    // Adds gradients of a relu layer's z to one of the vectors: the gradient of its bias.
    template <int layer>
    __device__ __forceinline__ void add_bias(const Tile& tile, int vector) {
        __syncwarp();
        const uint32_t ones = tile.buffer.lane / 4 == vector ? 0x3C003C00 : 0;
        add(tile, tile.gradients(layer), ones, ones);
    }

    // Adds `count` vectors to those in shared memory, from vector `first` on.
    __device__ __forceinline__ void add_to(const Tile& tile, int first, int count) const {
        const int vector = tile.buffer.lane / 4;
        if (vector >= count) return;
        tile.for_own_groups([&](int group, int column) {
#pragma unroll
            for (int j = 0; j < 2; ++j) {
                const float* own = sums[group][j];
                float* place = tile.shared.vectors[tile.buffer.warp][first + vector] + column +
                               8 * j + own_column();
                const float2 before = pair_at(place, 0);
                *reinterpret_cast<float2*>(place) =
                    make_float2(before.x + own[0], before.y + own[1]);
            }
        });
    }
};

// ---- forward -------------------------------------------------------------------------------------

// Computes the angles whose cosines are the coordinates of a thread's points; polynomials are
// cosines of multiples of these angles.
__device__ __forceinline__ void angles_of(float2 (&angles)[2], const float2 (&points)[2]) {
    const int own = threadIdx.x % 4, first = threadIdx.x % 32 - own;  // a lane computes one of four
    const float2 point = own < 2 ? points[0] : points[1];
    const float angle = acosf(fminf(fmaxf(own % 2 ? point.y : point.x, -1.0f), 1.0f));
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        angles[i].x = __shfl_sync(~0u, angle, first + 2 * i);
        angles[i].y = __shfl_sync(~0u, angle, first + 2 * i + 1);
    }
}

__device__ __forceinline__ void put_features(const Tile& tile) {
    float2 angles[2];
    angles_of(angles, tile.points);
#pragma unroll 1
    for (int column = 16 * tile.buffer.number; column < INPUT_WIDTH; column += 32) {
        uint32_t pairs[4];
        fourier_features(pairs, column, tile.points, angles, tile.shared.constants);
        tile.buffer.put<INPUT_WIDTH>(column, pairs);
    }
}

__device__ __forceinline__ void multiply_factors(const Tile& tile) {
#pragma unroll 1
    for (int column = 16 * tile.buffer.number; column < COLUMNS; column += 32) {
        float z[FACTORS][8] = {};
        multiply<INPUT_WIDTH, FEATURES, COLUMNS>(z, tile.buffer, tile.shared.arguments.forward[0],
                                                 column);
        uint32_t pairs[4];
#pragma unroll
        for (int factor = 0; factor < FACTORS; ++factor) {
            add_biases(z[factor], tile.shared.factor_bias[factor], column);
#pragma unroll
            for (int pair = 0; pair < 4; ++pair) {
                float *own = z[factor] + 2 * pair, *product = z[0] + 2 * pair;
                pairs[pair] = pack_saturated(own[0], own[1]);
                if (factor) product[0] *= own[0], product[1] *= own[1];
            }
            tile.factors().put<FACTORS * COLUMNS>(factor * COLUMNS + column, pairs);
        }
#pragma unroll
        for (int pair = 0; pair < 4; ++pair)
            pairs[pair] = pack_saturated(z[0][2 * pair], z[0][2 * pair + 1]);
        tile.values(1).put<COLUMNS>(column, pairs);
    }
    tile.pair_sync();
}

template <int layer = 1>
__device__ __forceinline__ void forward(const Tile& tile) {
    if constexpr (layer < HIDDEN) {
        float sums[OWN_GROUPS][8] = {};
        multiply<COLUMNS, COLUMNS, 32>(sums, tile.values(layer),
                                       tile.shared.arguments.forward[layer],
                                       16 * tile.buffer.number);
        tile.for_own_groups([&](int group, int column) {
            float* z = sums[group];
            add_biases(z, tile.shared.constants.bias[layer], column);
            uint32_t pairs[4];
#pragma unroll
            for (int pair = 0; pair < 4; ++pair)
                pairs[pair] = pack_saturated(larger_or_nan(z[2 * pair], 0.0f),
                                             larger_or_nan(z[2 * pair + 1], 0.0f));
            tile.values(layer + 1).put<COLUMNS>(column, pairs);
        });
        tile.pair_sync();
        forward<layer + 1>(tile);
    }
}

// ---- backward ------------------------------------------------------------------------------------

// Gradients of 16 columns of a layer's values -> gradients of its z, stored in the layer's buffer.
template <int layer>
__device__ __forceinline__ void differentiate(const Tile& tile, int column, const float* sums) {
    uint32_t pairs[4];
    if constexpr (layer > 0) {
        load_operand<COLUMNS>(pairs, tile.values(layer + 1), column);
#pragma unroll
        for (int pair = 0; pair < 4; ++pair) {
            const __half2 value = *reinterpret_cast<const __half2*>(&pairs[pair]);
            pairs[pair] = pack_saturated(sums[2 * pair], sums[2 * pair + 1]) &
                          __hgt2_mask(value, __float2half2_rn(0.0f));
        }
        __syncwarp();
        tile.gradients(layer).put<COLUMNS>(column, pairs);
    } else {
        uint32_t factors[FACTORS][4];
        const TileBuffer buffer = tile.factors();
#pragma unroll
        for (int factor = 0; factor < FACTORS; ++factor)
            load_operand<FACTORS * COLUMNS>(factors[factor], buffer, factor * COLUMNS + column);
        __syncwarp();
#pragma unroll
        for (int factor = 0; factor < FACTORS; ++factor) {
#pragma unroll
            for (int pair = 0; pair < 4; ++pair) {
                float2 gradient = make_float2(sums[2 * pair], sums[2 * pair + 1]);
#pragma unroll
                for (int other = 0; other < FACTORS; ++other)
                    if (other != factor) {
                        const float2 number = unpack(factors[other][pair]);
                        gradient.x *= number.x;
                        gradient.y *= number.y;
                    }
                pairs[pair] = pack_saturated(gradient.x, gradient.y);
            }
            buffer.put<FACTORS * COLUMNS>(factor * COLUMNS + column, pairs);
        }
    }
}

template <int layer = RELUS>
__device__ __forceinline__ void backward(const Tile& tile) {
    if constexpr (layer > 0) {
        tile.pair_sync();
        float sums[OWN_GROUPS][8] = {};
        multiply<COLUMNS, COLUMNS, 32>(sums, tile.gradients(layer),
                                       tile.shared.arguments.backward[layer],
                                       16 * tile.buffer.number);
        tile.for_own_groups(
            [&](int group, int column) { differentiate<layer - 1>(tile, column, sums[group]); });
        if constexpr (layer > 1) {
            VectorSums own;
            own.add_bias<layer - 1>(tile, 0);
            own.add_to(tile, place_of_bias(layer - 1), 1);
        }
        backward<layer - 1>(tile);
    }
}

// Computes the output, the loss, and the gradients of the last layer's weights and values.
__device__ __forceinline__ LaneTotals work_on_output(const Tile& tile) {
    const TileBuffer values = tile.values(HIDDEN);
    const uint32_t matrix = shared_address(tile.shared.output);
    uint32_t operand[COLUMNS / 4], last[4];
#pragma unroll
    for (int column = 0; column < COLUMNS; column += 16)
        load_operand<COLUMNS>(operand + column / 4, values, column);
    float outputs[4], z[2][1];
    start_output(outputs, operand, matrix);
    const float bias = tile.shared.constants.output_bias[own_channel() % CHANNELS];
#pragma unroll
    for (int i = 0; i < 2; ++i) z[i][0] = (outputs[2 * i] + outputs[2 * i + 1]) + bias;
    const float error = sum_channels(loss_of_points(z, tile));
    // a left operand of channels and points: from the lanes that have them
    const int lane = tile.buffer.lane, own = lane % 4 * 8 + lane / 4 % 4;
    uint32_t left[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const float low = __shfl_sync(~0u, z[i][0], own);
        const float high = __shfl_sync(~0u, z[i][0], own + 4);
        left[i] = lane / 4 < CHANNELS ? pack_saturated(low, high) : 0;
    }
    VectorSums vectors;
    vectors.add(tile, values, left[0], left[1]);
    last_operand(last, z);
    tile.pair_sync();  // both warps have read the values
    tile.for_own_groups([&](int, int column) {
        float sums[8];
        OperandWgmma<16>::set<0>(sums, last, block_matrix(matrix + column * 16, 0, 128));
        differentiate<RELUS>(tile, column, sums);
    });
    if constexpr (RELUS > 0) vectors.add_bias<RELUS>(tile, place_of_bias(RELUS));
    vectors.add_to(tile, 0, CHANNELS + (RELUS > 0));
    return tile.buffer.number ? LaneTotals{} : LaneTotals{error, z[0][0] + z[1][0]};
}

// ---- gradients of weights ------------------------------------------------------------------------

template <int layer>
struct Gradients {
    WeightSums<COLUMNS, COLUMNS> sums;
    Gradients<layer - 1> before;

    __device__ __forceinline__ void add(const Tile& tile) {
        before.add(tile);
        sums.add(tile.values(layer).tile, tile.gradients(layer).tile);
    }
    __device__ __forceinline__ void write(const Arguments& arguments) const {
        before.write(arguments);
        sums.write(arguments.weight_partials[layer], blockIdx.x);
    }
};

template <>
struct Gradients<0> {
    WeightSums<INPUT_WIDTH, FACTORS * COLUMNS> sums;

    __device__ __forceinline__ void add(const Tile& tile) {
        sums.add(tile.buffer.tile, tile.factors().tile);
    }
    __device__ __forceinline__ void write(const Arguments& arguments) const {
        sums.write(arguments.weight_partials[0], blockIdx.x);
    }
};

// ---- the kernel ----------------------------------------------------------------------------------

__device__ __forceinline__ void load_parameters(Shared& shared) {
    const Arguments& arguments = shared.arguments;
    load_constants(shared.constants, arguments.parameters, arguments.frequencies, arguments.offsets,
                   CONSUMERS);
    for (int i = threadIdx.x; i < FACTORS * COLUMNS; i += CONSUMERS)
        shared.factor_bias[0][place_of_constant(i)] =
            arguments.parameters[arguments.offsets.bias[0] + i];
    for (int i = threadIdx.x; i < 4 * (CHANNELS + RELUS) * WIDEST; i += CONSUMERS)
        (&shared.vectors[0][0][0])[i] = 0.0f;
    __syncthreads();
    put_output(shared.output, shared.constants);
    __syncthreads();
}

__device__ __forceinline__ void write_biases(const Shared& shared) {
    for (int i = threadIdx.x; i < RELUS * COLUMNS; i += CONSUMERS) {
        const int layer = 1 + i / COLUMNS, column = i % COLUMNS;
        float sum = 0.0f;
        for (int pair = 0; pair < 4; ++pair)
            sum += shared.vectors[pair][place_of_bias(layer)][column];
        shared.arguments.bias_partials[layer][blockIdx.x * COLUMNS + column] = sum;
    }
}

extern "C" __global__ void __launch_bounds__(CONSUMERS, 1) product_pass(const Arguments* given) {
    extern __shared__ __align__(128) char memory[];
    Shared& shared = *reinterpret_cast<Shared*>(memory + BUFFERS_BYTES);
    if (threadIdx.x == 0) shared.arguments = *given;
    __syncthreads();
    load_parameters(shared);
    const int warp = __shfl_sync(~0u, threadIdx.x / 32, 0);
    Tile tile = {
        {int(blockIdx.x)}, memory, shared, {memory, warp / 4, warp % 4, int(threadIdx.x) % 32}};
    Gradients<RELUS> gradients;
    LaneTotals totals;
    tile.fetch_points(shared.arguments, tile.buffer);
    while (tile.index < TILES) {
        put_features(tile);
        tile.pair_sync();
        multiply_factors(tile);
        tile.fetch(shared.arguments, tile.buffer);
        forward(tile);
        const LaneTotals own = work_on_output(tile);
        totals.error += own.error;
        totals.output_bias += own.output_bias;
        backward(tile);
        tile.index += gridDim.x;
        __syncthreads();
        gradients.add(tile);
        if (tile.index < TILES) tile.fetch_points(shared.arguments, tile.buffer);
        __syncthreads();
    }
    gradients.write(shared.arguments);
    store_totals(shared, totals, warp);
    __syncthreads();
    write_partials(shared);
    write_biases(shared);
}
