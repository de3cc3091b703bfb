// Forward, loss and backward of one batch, fused; twin: kernels/layers.py.
//
// Blocks of BLOCK_TILES tiles and one warp that brings weights. What the weight gradients need -
// each layer's inputs and the slopes of its outputs - goes to global memory in float16, in blocks
// of 8 points x 8 columns, which is how hopper_weights.cu reads it.
//
// Slopes are those of the sum over the batch, times GRADIENT_SCALE, which keeps small ones out of
// float16's subnormal numbers.
#include "hopper_derivatives.cuh"
#include "hopper_tile.cuh"

// ---- loss ----------------------------------------------------------------------------------

// Loss of the two points' pixels; z becomes its slope. Returns loss and squared error, where this
// thread is the one to count them.
__device__ __forceinline__ float2 loss_of_points(float (&z)[2][CHANNELS], const Tile& tile) {
    const Table& table = tile.table;
    float2 sums = {0.0f, 0.0f};
#if FOOTPRINT
    float (*values)[CHANNELS] = tile.shared.outputs[table.number];
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int channel = 0; channel < CHANNELS; ++channel)
            if (table.lane % 4 == 0)
                values[16 * table.warp + 8 * i + table.lane / 4][channel] =
                    output_value(z[i][channel]);
    table.sync();
#endif
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        int row = 16 * table.warp + 8 * i + table.lane / 4;
        bool valid = tile.pixel_of(row) >= 0;
        bool counts = valid && table.lane % 4 == 0 && row % POINTS == 0;
#pragma unroll
        for (int channel = 0; channel < CHANNELS; ++channel) {
            float target = tile.targets[i][channel];
            float value = output_value(z[i][channel]), loss, squared_error, slope;
#if FOOTPRINT
            constexpr int points0 = (POINTS + 1) / 2, points1 = POINTS / 2;
            int first = valid ? row - row % POINTS : 0;
            float mean0 = 0.0f, mean1 = 0.0f;
            for (int point = 0; point < points0; ++point) mean0 += values[first + point][channel];
            for (int point = points0; point < POINTS; ++point)
                mean1 += values[first + point][channel];
            FootprintLoss both = footprint_loss(mean0 / points0, mean1 / points1, target);
            loss = both.loss;
            squared_error = both.squared_error;
            slope = row % POINTS < points0 ? both.slope0 / points0 : both.slope1 / points1;
#else
            float difference = value - target;
            loss = loss_value(value, target);
            squared_error = difference * difference;
            slope = loss_slope(value, target);
#endif
            if (counts) sums.x += loss, sums.y += tile.weights[i] * squared_error;
            z[i][channel] = valid ? float(GRADIENT_SCALE) * slope * output_slope(value) : 0.0f;
        }
    }
#if FOOTPRINT
    table.sync();  // all have read before others write
#endif
    return sums;
}

// ---- layers --------------------------------------------------------------------------------

// z of a layer, in `sums` -> its values on the table; its derivatives are kept.
template <int columns>
__device__ __forceinline__ void activate(const Tile& tile, int layer, const float* sums) {
    Derivatives<columns> derivatives = {};
    tile.table.clear();
#pragma unroll
    for (int column = 0; column < columns; column += 16) {
        uint32_t pairs[4];
        float z[4][2], value[4][2];
#pragma unroll
        for (int pair = 0; pair < 4; ++pair) {
            float2 bias =
                pair_at(tile.shared.constants.bias[layer], column + 8 * (pair / 2) + own_column());
            z[pair][0] = sums[column / 2 + 2 * pair] + bias.x;
            z[pair][1] = sums[column / 2 + 2 * pair + 1] + bias.y;
            value[pair][0] = activation<ACTIVATION>(z[pair][0]);
            value[pair][1] = activation<ACTIVATION>(z[pair][1]);
            pairs[pair] = pack_values(value[pair][0], value[pair][1]);
        }
        tile.table.put<columns>(column, pairs);
        derivatives.note(column, z, value);
        if (!derivatives.are_bits) derivatives.save(tile.kept(layer), column / 16);
    }
    if (derivatives.are_bits)
#pragma unroll
        for (int vector = 0; vector < derivatives.vectors; ++vector)
            derivatives.save(tile.kept(layer), vector);
    tile.table.show();
}

// Slopes of a layer's values, in `sums` -> slopes of its z on the table.
template <int columns>
__device__ __forceinline__ void differentiate(const Tile& tile,
                                              const Derivatives<columns>& derivatives,
                                              const float* sums) {
    tile.table.clear();
#pragma unroll
    for (int column = 0; column < columns; column += 16) {
        uint32_t pairs[4];
#pragma unroll
        for (int pair = 0; pair < 4; ++pair) {
            const float* sum = sums + column / 2 + 2 * pair;
            pairs[pair] = derivatives.times(column, pair, sum[0], sum[1]);
        }
        tile.table.put<columns>(column, pairs);
    }
    tile.table.show();
}

// From z of the first layer to z of the last hidden layer.
template <typename Sums>
__device__ __forceinline__ void forward(const Tile& tile, Sums& sums) {
#pragma unroll 1
    for (int layer = 1; layer < HIDDEN; ++layer) {
        for_width_of(layer - 1, [&](auto kind) {
            constexpr int rows = width_after[kind.value];
            activate<rows>(tile, layer - 1, sums);
            tile.send<rows>(tile.shared.arguments.values[layer]);
        });
        for_shape_of(layer, [&](auto kind) {
            constexpr int columns = width_after[kind.value];
            multiply<fan_in(kind.value), columns, RESIDENT>(sums, tile.table.tile, tile.stream,
                                                            tile.place);
            forget_sums<columns / 2>(sums);
        });
    }
}

// From slopes of the last hidden layer's z to those of the first layer's, always on the table.
template <typename Sums>
__device__ __forceinline__ void backward(const Tile& tile, Sums& sums) {
#pragma unroll 1
    for (int layer = HIDDEN - 1; layer >= 1; --layer)
        for_shape_of(layer, [&](auto kind) {
            constexpr int rows = width_after[kind.value], columns = fan_in(kind.value);
            tile.send<rows>(tile.shared.arguments.slopes[layer]);
            Derivatives<columns> derivatives;  // on their way while the product is worked on
            derivatives.load(tile.kept(layer - 1));
            multiply<rows, columns, RESIDENT>(sums, tile.table.tile, tile.stream, tile.place);
            differentiate(tile, derivatives, sums);
        });
}

// Points of this thread as left operands; as the sum of two rounded numbers, exact to 22 bits.
__device__ __forceinline__ void note_points(const Tile& tile) {
    float high[2][3], low[2][3];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        float numbers[3] = {1.0f, tile.points[i].x, tile.points[i].y};
#pragma unroll
        for (int v = 0; v < 3; ++v) {
            high[i][v] = __half2float(__float2half_rn(numbers[v]));
            low[i][v] = numbers[v] - high[i][v];
        }
    }
    note_rows(tile.shared.left[tile.table.number][1], tile.table, high);
    note_rows(tile.shared.left[tile.table.number][2], tile.table, low);
}

// Slopes of the output numbers -> slopes of the last hidden layer's z on the table, where its
// values have been.
__device__ __forceinline__ void output_backward(const float (&slopes)[2][CHANNELS],
                                                const Tile& tile, const float* sums) {
    constexpr int columns = LAST_WIDTH;
    const int number = tile.table.number;
    note_rows(tile.shared.left[number][0], tile.table, slopes);
    tile.table.show();
    add_vectors<columns, 1>(tile.table, tile.shared.left[number], tile.shared.vectors[number],
                            CHANNELS);
    tile.table.clear();
#pragma unroll
    for (int column = 0; column < columns; column += 16) {
        uint32_t pairs[4];
#pragma unroll
        for (int j = 0; j < 2; ++j) {
            int own = column + 8 * j + own_column();
            float slope[2][2] = {};
#pragma unroll
            for (int channel = 0; channel < CHANNELS; ++channel) {
                float2 weight = pair_at(tile.shared.constants.output_weight[channel], own);
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    slope[i][0] += slopes[i][channel] * weight.x;
                    slope[i][1] += slopes[i][channel] * weight.y;
                }
            }
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const float* z = sums + column / 2 + 4 * j + 2 * i;
                pairs[2 * j + i] = pack_saturated(
                    slope[i][0] * derivative<ACTIVATION>(z[0], activation<ACTIVATION>(z[0])),
                    slope[i][1] * derivative<ACTIVATION>(z[1], activation<ACTIVATION>(z[1])));
            }
        }
        tile.table.put<columns>(column, pairs);
    }
    tile.table.show();
}

// ---- the kernel ----------------------------------------------------------------------------

struct Totals {
    double loss = 0.0, squared_error = 0.0;
    float output_bias[CHANNELS] = {};
};

template <typename Sums>
__device__ __forceinline__ void work_on(const Tile& tile, Sums& sums, Totals& totals) {
    const Shared& shared = tile.shared;
    if constexpr (first_product == 0) {
        encode(tile.table, tile.points, shared.constants);
        tile.send<INPUT_WIDTH>(shared.arguments.values[0]);
        multiply<INPUT_WIDTH, width_after[0], RESIDENT>(sums, tile.table.tile, tile.stream,
                                                        tile.place);
    } else {
        place_coordinates(tile.table, sums, tile.points, shared.constants);
    }
    if constexpr (HIDDEN > 1) forward(tile, sums);
    float z[2][CHANNELS];
    output_layer<true>(z, tile.table, sums, shared.constants);
    float2 errors = loss_of_points(z, tile);
    totals.loss += errors.x;
    totals.squared_error += errors.y;
    if (tile.table.lane % 4 == 0)
#pragma unroll
        for (int channel = 0; channel < CHANNELS; ++channel)
            totals.output_bias[channel] += z[0][channel] + z[1][channel];
    if constexpr (first_product == 1) note_points(tile);
    output_backward(z, tile, sums);
    if constexpr (HIDDEN > 1) backward(tile, sums);
    if constexpr (first_product == 0)
        tile.send<width_after[0]>(shared.arguments.slopes[0]);
    else
        add_vectors<width_after[0], 2>(tile.table, tile.shared.left[tile.table.number] + 1,
                                       tile.shared.vectors[tile.table.number] + CHANNELS,
                                       COORDINATE_VECTORS);
}

__device__ __forceinline__ void note_totals(Shared& shared, Totals& totals) {
    for (int distance = 16; distance > 0; distance /= 2) {
        totals.loss += __shfl_xor_sync(~0u, totals.loss, distance);
        totals.squared_error += __shfl_xor_sync(~0u, totals.squared_error, distance);
        for (int channel = 0; channel < CHANNELS; ++channel)
            totals.output_bias[channel] +=
                __shfl_xor_sync(~0u, totals.output_bias[channel], distance);
    }
    if (threadIdx.x % 32 == 0) {
        int warp = threadIdx.x / 32;
        shared.losses[warp][0] = totals.loss;
        shared.losses[warp][1] = totals.squared_error;
        for (int channel = 0; channel < CHANNELS; ++channel)
            shared.output_bias[warp][channel] = totals.output_bias[channel];
    }
}

// Sums over the block, in a fixed order.
__device__ __forceinline__ void write_partials(const Shared& shared) {
    const Arguments& arguments = shared.arguments;
    for (int i = threadIdx.x; i < VECTORS * WIDEST; i += CONSUMERS) {
        float sum = 0.0f;
        for (int tile = 0; tile < BLOCK_TILES; ++tile) sum += (&shared.vectors[tile][0][0])[i];
        int vector = i / WIDEST, column = i % WIDEST;
        int place = vector < CHANNELS ? column * CHANNELS + vector : i;
        arguments.vector_partials[size_t(blockIdx.x) * VECTORS * WIDEST + place] = sum;
    }
    if (threadIdx.x < CHANNELS) {
        float sum = 0.0f;
        for (int warp = 0; warp < 4 * BLOCK_TILES; ++warp)
            sum += shared.output_bias[warp][threadIdx.x];
        arguments.output_bias_partials[blockIdx.x * CHANNELS + threadIdx.x] = sum;
    }
    if (threadIdx.x == 0) {
        double loss = 0.0, squared_error = 0.0;
        for (int warp = 0; warp < 4 * BLOCK_TILES; ++warp) {
            loss += shared.losses[warp][0];
            squared_error += shared.losses[warp][1];
        }
        const double count = double(PIXELS) * CHANNELS;
        arguments.loss_partials[blockIdx.x] = make_double2(loss / count, squared_error / count);
    }
}

extern "C" __global__ void __launch_bounds__(CONSUMERS + 128, 1)
    hopper_pass(const Arguments* given) {
    extern __shared__ __align__(128) char memory[];
    char* tiles = memory + STAGES * STAGE_BYTES;
    Shared& shared = *reinterpret_cast<Shared*>(tiles + BLOCK_TILES * TILE_BYTES);
    Stream stream = {memory, shared.filled, shared.emptied};
    if (threadIdx.x == 0) {
        shared.arguments = *given;
        for (int stage = 0; stage < STAGES; ++stage) {
            barrier_init(&shared.filled[stage], 1);
            barrier_init(&shared.emptied[stage], 4 * BLOCK_TILES);
        }
        barrier_init_fence();
    }
    float* vectors = &shared.vectors[0][0][0];
    for (int i = threadIdx.x; i < BLOCK_TILES * VECTORS * WIDEST; i += blockDim.x)
        vectors[i] = 0.0f;
    __half* left = &shared.left[0][0][0][0];
    for (int i = threadIdx.x; i < BLOCK_TILES * 3 * 8 * ROWS_PITCH; i += blockDim.x)
        left[i] = __half(0.0f);
    __syncthreads();
    const Arguments& arguments = shared.arguments;
    load_constants(shared.constants, arguments.parameters, arguments.frequencies,
                   arguments.offsets);
    __syncthreads();

    const int rounds = (TILES + BLOCK_TILES * gridDim.x - 1) / (BLOCK_TILES * gridDim.x);
    if (threadIdx.x >= CONSUMERS) {
        give_registers<PRODUCER_REGISTERS>();
        if (threadIdx.x == CONSUMERS) send_weights<true>(stream, arguments.weights, rounds);
    } else {
        take_registers<CONSUMER_REGISTERS>();
        const int number = threadIdx.x / 128;
        const Table table = {tiles + number * TILE_BYTES, number, int(threadIdx.x) / 32 % 4,
                             int(threadIdx.x) % 32};
        uint4* derivatives = arguments.derivatives +
                             size_t(blockIdx.x) * HIDDEN * (WIDEST / 16) * CONSUMERS + threadIdx.x;
        RingPlace place;
        Totals totals;
        float sums[WIDEST / 2];
        for (int round = 0; round < rounds; ++round) {
            // an incomplete last round is spread over the blocks
            int index = (round * BLOCK_TILES + number) * gridDim.x + blockIdx.x;
            if (index < TILES) {
                Tile tile = {table, shared, stream, place, index, derivatives};
                tile.fetch();
                work_on(tile, sums, totals);
            } else {
                skip_weights<true>(stream, place);
            }
        }
        if (table.is_first()) bulk_stores_done();
        note_totals(shared, totals);
        named_sync<CONSUMERS>(ALL_CONSUMERS);
        write_partials(shared);
    }
}
