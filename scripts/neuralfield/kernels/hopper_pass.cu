// Forward, loss and backward of one batch, fused; twin: kernels/layers.py.
//
// Blocks of BLOCK_TILES tiles and one warp that brings weights. What the weight gradients need - each
// layer's inputs and the slopes of its outputs - goes to global memory in float16, in blocks of
// 8 points x 8 columns, which is how hopper_weights.cu reads it.
//
// Slopes are those of the sum over the batch, times GRADIENT_SCALE, which keeps small ones out of
// float16's subnormal numbers.
#include "hopper_network.cuh"

constexpr bool RESIDENT = is_resident<true>();
constexpr int COORDINATE_VECTORS = ENCODING == FOURIER ? 0 : 3;  // sums of slopes, times x, times y
constexpr int VECTORS = CHANNELS + COORDINATE_VECTORS;
constexpr int ROWS_PITCH = 72;  // 64 rows, and what keeps a warp's reads in different banks

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
    int index;           // may lie past the last tile, and then counts nothing
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
            points[i] = index < TILES ? arguments.inputs[index * 64 + row] : make_float2(0.0f, 0.0f);
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
    template <int columns> __device__ __forceinline__ void send(__half* tiles) const {
        if (table.is_first() && index < TILES)
            bulk_store(tiles + size_t(index) * 64 * columns, table.tile, 64 * columns * 2);
    }
};

// ---- sums over points that are not matrix products -----------------------------------------

// For each vector, note its number for the two points of this thread.
template <int count>
__device__ __forceinline__ void note_rows(__half (*left)[ROWS_PITCH], const Table& table,
                                          const float (&numbers)[2][count]) {
    if (table.lane % 4 == 0)
#pragma unroll
        for (int v = 0; v < count; ++v)
#pragma unroll
            for (int i = 0; i < 2; ++i)
                left[v][16 * table.warp + 8 * i + table.lane / 4] = __float2half_rn(numbers[i][v]);
}

// vectors += (noted numbers) x (the tile on the table); warps take blocks of columns in turn.
template <int columns, int products>
__device__ __forceinline__ void add_vectors(const Table& table, const __half (*left)[8][ROWS_PITCH],
                                            float (*vectors)[WIDEST], int count) {
    constexpr int block_row = columns / 8 * 128;
    const int row = table.lane / 4, own_rows = table.lane % 4 * 2;
    uint32_t operand[products][8];
#pragma unroll
    for (int product = 0; product < products; ++product)
#pragma unroll
        for (int k = 0; k < 8; ++k)
            operand[product][k] =
                *reinterpret_cast<const uint32_t*>(&left[product][row][8 * k + own_rows]);
    const uint32_t address =
        shared_address(table.tile) + table.lane % 8 * 16 + table.lane / 8 * block_row;
#pragma unroll 2
    for (int j = table.warp; j < columns / 8; j += 4) {
        float sums[4][4] = {};
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            uint32_t rows[4];
            load_transposed(rows, address + half * 4 * block_row + j * 128);
#pragma unroll
            for (int product = 0; product < products; ++product) {
                const uint32_t* own = operand[product] + 4 * half;
                warp_product(sums[2 * half], own[0], own[1], rows[0], rows[1]);
                warp_product(sums[2 * half + 1], own[2], own[3], rows[2], rows[3]);
            }
        }
        if (row < count) {
            float2* place = reinterpret_cast<float2*>(&vectors[row][8 * j + own_rows]);
            *place = make_float2(
                place->x + ((sums[0][0] + sums[1][0]) + (sums[2][0] + sums[3][0])),
                place->y + ((sums[0][1] + sums[1][1]) + (sums[2][1] + sums[3][1])));
        }
    }
}

// ---- loss ----------------------------------------------------------------------------------

// Loss of the two points' pixels; z becomes its slope. Returns loss and squared error, where this
// thread is the one to count them.
__device__ __forceinline__ float2 loss_of_points(float (&z)[2][CHANNELS], const Tile& tile) {
    const Table& table = tile.table;
    float2 sums = {0.0f, 0.0f};
#if FOOTPRINT
    float(*values)[CHANNELS] = tile.shared.outputs[table.number];
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
template <int columns, int name>
__device__ __forceinline__ void activate(const Tile& tile, int layer, const float* sums) {
    uint4* derivatives = tile.kept(layer);
    tile.table.clear();
#pragma unroll
    for (int column = 0; column < columns; column += 16) {
        uint32_t pairs[4], kept[4];
#pragma unroll
        for (int j = 0; j < 2; ++j) {
            float2 bias = pair_at(tile.shared.constants.bias[layer],
                                  column + 8 * j + own_column());
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const float* sum = sums + column / 2 + 4 * j + 2 * i;
                float low = sum[0] + bias.x, high = sum[1] + bias.y;
                float low_value = activation<name>(low), high_value = activation<name>(high);
                pairs[2 * j + i] = pack(low_value, high_value);
                kept[2 * j + i] =
                    pack(derivative<name>(low, low_value), derivative<name>(high, high_value));
            }
        }
        tile.table.put<columns>(column, pairs);
        derivatives[column / 16 * CONSUMERS] = make_uint4(kept[0], kept[1], kept[2], kept[3]);
    }
    tile.table.show();
}

// Blocks of 16 columns whose derivatives are on their way while the product is worked on: as many as
// there are registers for.
template <int columns> __host__ __device__ constexpr int early_blocks() {
    return columns > 128 ? 10 : columns / 16;
}

// Slopes of a layer's values, in `sums` -> slopes of its z on the table.
template <int columns>
__device__ __forceinline__ void differentiate(const Tile& tile, int layer, uint4* derivatives,
                                              const float* sums) {
#pragma unroll
    for (int i = early_blocks<columns>(); i < columns / 16; ++i)
        derivatives[i] = tile.kept(layer)[i * CONSUMERS];
    tile.table.clear();
#pragma unroll
    for (int column = 0; column < columns; column += 16) {
        const uint4 kept = derivatives[column / 16];
        const uint32_t factors[4] = {kept.x, kept.y, kept.z, kept.w};
        uint32_t pairs[4];
#pragma unroll
        for (int pair = 0; pair < 4; ++pair) {
            const float* sum = sums + column / 2 + 2 * pair;
            float2 factor = unpack(factors[pair]);
            pairs[pair] = pack_saturated(sum[0] * factor.x, sum[1] * factor.y);
        }
        tile.table.put<columns>(column, pairs);
    }
    tile.table.show();
}

// From z of the layer before to z of the last hidden layer.
template <int layer> __device__ __forceinline__ void forward(const Tile& tile, float* sums) {
    if constexpr (layer < HIDDEN) {
        constexpr int rows = fan_in(layer), columns = width_after[layer];
        constexpr int end = layer + layers_alike(layer, 1);
#pragma unroll 1
        for (int alike = layer; alike < end; ++alike) {
            activate<rows, activation_of[layer - 1]>(tile, alike - 1, sums);
            tile.send<rows>(tile.shared.arguments.values[alike]);
            multiply<rows, columns, RESIDENT>(sums, tile.table.tile, tile.stream, tile.place);
        }
        forward<end>(tile, sums);
    }
}

// From slopes of a layer's z to those of the first layer's, always on the table.
template <int layer> __device__ __forceinline__ void backward(const Tile& tile, float* sums) {
    if constexpr (layer >= 1) {
        constexpr int rows = width_after[layer], columns = fan_in(layer);
        constexpr int end = layer - layers_alike(layer, -1);
#pragma unroll 1
        for (int alike = layer; alike > end; --alike) {
            tile.send<rows>(tile.shared.arguments.slopes[alike]);
            uint4 derivatives[columns / 16];
#pragma unroll
            for (int i = 0; i < early_blocks<columns>(); ++i)
                derivatives[i] = tile.kept(alike - 1)[i * CONSUMERS];
            multiply<rows, columns, RESIDENT>(sums, tile.table.tile, tile.stream, tile.place);
            differentiate<columns>(tile, alike - 1, derivatives, sums);
        }
        backward<end>(tile, sums);
    }
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

// Slopes of the output numbers -> slopes of the last hidden layer's z on the table, where its values
// have been.
__device__ __forceinline__ void output_backward(const float (&slopes)[2][CHANNELS], const Tile& tile,
                                                const float* sums) {
    constexpr int columns = LAST_WIDTH, name = activation_of[HIDDEN - 1];
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
                    slope[i][0] * derivative<name>(z[0], activation<name>(z[0])),
                    slope[i][1] * derivative<name>(z[1], activation<name>(z[1])));
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

__device__ __forceinline__ void work_on(const Tile& tile, float* sums, Totals& totals) {
    const Shared& shared = tile.shared;
    if constexpr (first_product == 0) {
        encode(tile.table, tile.points, shared.constants);
        tile.send<INPUT_WIDTH>(shared.arguments.values[0]);
        multiply<INPUT_WIDTH, width_after[0], RESIDENT>(sums, tile.table.tile, tile.stream,
                                                        tile.place);
    } else {
        place_coordinates(tile.table, sums, tile.points, shared.constants);
    }
    forward<1>(tile, sums);
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
    backward<HIDDEN - 1>(tile, sums);
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
        for (int warp = 0; warp < 4 * BLOCK_TILES; ++warp) sum += shared.output_bias[warp][threadIdx.x];
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

extern "C" __global__ void __launch_bounds__(CONSUMERS + 128, 1) hopper_pass(const Arguments* given) {
    extern __shared__ __align__(128) char memory[];
    char* tiles = memory + STAGES * STAGE_BYTES;
    Shared& shared = *reinterpret_cast<Shared*>(tiles + BLOCK_TILES * TILE_BYTES);
    Stream stream = {memory, shared.filled, shared.emptied};
    constexpr int block_count = (TILES + BLOCK_TILES - 1) / BLOCK_TILES;

    if (threadIdx.x == 0) {
        shared.arguments = *given;
        for (int stage = 0; stage < STAGES; ++stage) {
            barrier_init(&shared.filled[stage], 1);
            barrier_init(&shared.emptied[stage], 4 * BLOCK_TILES);
        }
        barrier_init_fence();
    }
    float* vectors = &shared.vectors[0][0][0];
    for (int i = threadIdx.x; i < BLOCK_TILES * VECTORS * WIDEST; i += blockDim.x) vectors[i] = 0.0f;
    __half* left = &shared.left[0][0][0][0];
    for (int i = threadIdx.x; i < BLOCK_TILES * 3 * 8 * ROWS_PITCH; i += blockDim.x)
        left[i] = __half(0.0f);
    __syncthreads();
    const Arguments& arguments = shared.arguments;
    load_constants(shared.constants, arguments.parameters, arguments.frequencies, arguments.offsets);
    __syncthreads();

    if (threadIdx.x >= CONSUMERS) {
        give_registers<PRODUCER_REGISTERS>();
        if (threadIdx.x == CONSUMERS)
            send_weights<true>(stream, arguments.weights,
                               (block_count - int(blockIdx.x) + int(gridDim.x) - 1) / int(gridDim.x));
    } else {
        take_registers<CONSUMER_REGISTERS>();
        const int number = threadIdx.x / 128;
        const Table table = {tiles + number * TILE_BYTES, number, int(threadIdx.x) / 32 % 4,
                             int(threadIdx.x) % 32};
        uint4* derivatives = arguments.derivatives +
                             size_t(blockIdx.x) * HIDDEN * (WIDEST / 16) * CONSUMERS +
                             threadIdx.x;
        RingPlace place;
        Totals totals;
        float sums[WIDEST / 2];
        for (int block = blockIdx.x; block < block_count; block += gridDim.x) {
            Tile tile = {table, shared, stream, place, block * BLOCK_TILES + number, derivatives};
            tile.fetch();
            work_on(tile, sums, totals);
        }
        if (table.is_first()) bulk_stores_done();
        note_totals(shared, totals);
        named_sync<CONSUMERS>(ALL_CONSUMERS);
        write_partials(shared);
    }
}
