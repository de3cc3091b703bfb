// The parts of a pass that do not depend on how it computes the layers: a tile's points and
// targets, their loss, the gradients of the last layer's weights and values, and sums over the
// block.
//
// A `Tile` has a buffer, Points and `shared`, the struct with the shared arrays used here.
//
// Constants: PIXELS, POINTS, TILE_PIXELS, FOOTPRINT, WEIGHTED, GRADIENT_SCALE, and those of
// padded_network.cuh.
#pragma once
#include "padded_network.cuh"

constexpr int COORDINATE_VECTORS = has_features ? 0 : 3;  // sums of gradients times 1, x and y
constexpr int VECTORS = CHANNELS + COORDINATE_VECTORS;

// The channel of this lane, if channels are distributed over lanes; may be CHANNELS or more.
__device__ __forceinline__ int own_channel() { return threadIdx.x % 4; }

// The first arguments of every pass.
struct BatchArguments {
    const float2* inputs;
    const float* targets;
    const float* pixel_weights;
    const float* parameters;
    const float* frequencies;
};

constexpr bool ALL_ROWS_VALID = TILE_PIXELS * POINTS == 64 && PIXELS == TILES * TILE_PIXELS;

// The two points of a tile that belong to a thread, with the targets of all channels or, if
// channels are distributed over lanes, of this lane's channel. Four neighbouring lanes have the
// same points.
template <bool are_shared_out>
struct PointsOf {
    static constexpr bool shared_out = are_shared_out;
    static constexpr int channels = shared_out ? 1 : CHANNELS;  // of a thread
    int index;                                                  // of the tile
    float2 points[2];
    float targets[2][channels], weights[2];
    uint32_t features[ENCODING == HASHGRID ? INPUT_WIDTH / 4 : 1];  // pairs as in TileBuffer::put

    // Returns the index of this thread's pair `i` of features in the array of all rows' pairs.
    static __device__ __forceinline__ size_t feature_place(int tile, const TileBuffer& buffer,
                                                           int i) {
        int row = 16 * buffer.warp + 8 * (i % 2) + buffer.lane / 4;
        return size_t(i / 2 * 4 + buffer.lane % 4) * (64 * TILES) + tile * 64 + row;
    }

    // Returns the pixel of a row in the batch; -1: the row is not valid.
    __device__ __forceinline__ int pixel_of(int row) const {
        int pixel = index * TILE_PIXELS + row / POINTS;
        return ALL_ROWS_VALID || (row < TILE_PIXELS * POINTS && pixel < PIXELS) ? pixel : -1;
    }

    static __device__ __forceinline__ bool is_valid(int pixel) {
        return ALL_ROWS_VALID || pixel >= 0;
    }

    // Starts to load points, weights and targets. Rows that are not valid, and lanes without a
    // channel, load numbers of other rows or channels, which have no effect: with a condition, the
    // compiler would copy the loaded numbers, and so wait for the load.
    template <typename Arguments>
    __device__ __forceinline__ void fetch(const Arguments& arguments, const TileBuffer& buffer) {
#pragma unroll
        for (int i = 0; i < 2; ++i)
            points[i] =
                __ldcg(arguments.inputs + index * 64 + 16 * buffer.warp + 8 * i + buffer.lane / 4);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            int row = 16 * buffer.warp + 8 * i + buffer.lane / 4, pixel = pixel_of(row);
            weights[i] = WEIGHTED ? __ldcg(arguments.pixel_weights + max(pixel, 0)) : 1.0f;
#pragma unroll
            for (int c = 0; c < channels; ++c) {
                const int channel = shared_out ? own_channel() : c;
                targets[i][c] = __ldcg(arguments.targets + max(pixel, 0) * CHANNELS +
                                       min(channel, CHANNELS - 1));
            }
        }
        if constexpr (ENCODING == HASHGRID)
#pragma unroll
            for (int i = 0; i < INPUT_WIDTH / 4; ++i)
                features[i] = arguments.features[feature_place(index, buffer, i)];
    }
};

typedef PointsOf<false> Points;

// ---- loss ----------------------------------------------------------------------------------

// Synchronises all threads that have points of the same pixels.
__device__ __forceinline__ void pixels_sync(const TileBuffer& buffer) {
    if (16 % POINTS == 0)
        __syncwarp();
    else
        buffer.sync();
}

// Computes the loss of the two points' pixels, and replaces z by the loss's gradient. Returns the
// loss and squared error of pixels whose first point this thread has: summed over all channels or,
// if channels are distributed over lanes, of this lane's channel.
template <typename Tile>
__device__ __forceinline__ float2 loss_of_points(float (&z)[2][Tile::channels], const Tile& tile) {
    const TileBuffer& buffer = tile.buffer;
    const bool has_channel = !Tile::shared_out || own_channel() < CHANNELS;
    float2 sums = {0.0f, 0.0f};
#if FOOTPRINT
    float (*values)[CHANNELS] = tile.shared.outputs[buffer.number];
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int c = 0; c < Tile::channels; ++c)
            if (Tile::shared_out ? has_channel : buffer.lane % 4 == 0)
                values[16 * buffer.warp + 8 * i + buffer.lane / 4]
                      [Tile::shared_out ? own_channel() : c] = output_value(z[i][c]);
    pixels_sync(buffer);
#endif
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        int row = 16 * buffer.warp + 8 * i + buffer.lane / 4;
        const int pixel = tile.pixel_of(row);
        const bool valid =
            Tile::shared_out ? has_channel && tile.is_valid(pixel) : tile.is_valid(pixel);
        const int point = unsigned(row) % POINTS;
        const bool counts = valid && point == 0;  // in all lanes that have the point and channel
#pragma unroll
        for (int c = 0; c < Tile::channels; ++c) {
            float target = tile.targets[i][c];
            float value = output_value(z[i][c]), loss, squared_error, gradient;
#if FOOTPRINT
            constexpr int points0 = (POINTS + 1) / 2, points1 = POINTS / 2;
            float mean0 = 0.0f, mean1 = 0.0f;
            // if each pixel is in one warp, only the warp was synchronised: also lanes that are not
            // valid then read only its rows
            const int first = 16 % POINTS == 0 || valid ? row - point : 0;
            const int channel = Tile::shared_out ? own_channel() % CHANNELS : c;
            for (int i = 0; i < points0; ++i) mean0 += values[first + i][channel];
            for (int i = points0; i < POINTS; ++i) mean1 += values[first + i][channel];
            FootprintLoss both = footprint_loss(mean0 / points0, mean1 / points1, target);
            loss = both.loss;
            squared_error = both.squared_error;
            gradient = point < points0 ? both.gradient0 / points0 : both.gradient1 / points1;
#else
            float difference = value - target;
            loss = loss_value(value, target);
            squared_error = difference * difference;
            gradient = loss_derivative(value, target);
#endif
            // products are not contracted with sums, so that every kernel gets the same bits
            if (counts) {
                sums.x = __fadd_rn(sums.x, loss);
                sums.y = __fadd_rn(sums.y, __fmul_rn(tile.weights[i], squared_error));
            }
            gradient = __fmul_rn(float(GRADIENT_SCALE) * gradient, output_derivative(value));
            z[i][c] = valid ? gradient : 0.0f;
        }
    }
#if FOOTPRINT
    pixels_sync(buffer);  // all threads have read the values before any thread overwrites them
#endif
    return sums;
}

// ---- the last layer, and the first without a matrix ---

// Splits 1, x and y of this thread's points into sums of two numbers, each of which is rounded to
// float16: exact to 22 bits or, where the number is small, to 3e-8.
__device__ __forceinline__ void split_points(float (&high)[2][3], float (&low)[2][3],
                                             const float2 (&points)[2]) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        float numbers[3] = {1.0f, points[i].x, points[i].y};
#pragma unroll
        for (int v = 0; v < 3; ++v) {
            high[i][v] = __half2float(__float2half_rn(numbers[v]));
            low[i][v] = numbers[v] - high[i][v];
        }
    }
}

// Gradients of the output numbers -> gradients of the last hidden layer's z, for 16 columns with
// their output weights: pairs as in TileBuffer::put. `sums` has the values of z.
__device__ __forceinline__ void last_gradients(uint32_t (&pairs)[4],
                                               const float (&gradients)[2][CHANNELS],
                                               const float* sums,
                                               const ConstantPairs (&weights)[CHANNELS]) {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
        float2 gradient[2] = {};
#pragma unroll
        for (int channel = 0; channel < CHANNELS; ++channel) {
            const float2 weight = weights[channel].of[j];
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                gradient[i].x += gradients[i][channel] * weight.x;
                gradient[i].y += gradients[i][channel] * weight.y;
            }
        }
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const float* sum = sums + 4 * j + 2 * i;
            float2 z = make_float2(sum[0], sum[1]);
            // output_layer has computed this activation too, but no registers are left to keep it
            asm volatile("" : "+f"(z.x), "+f"(z.y));
            const float inverse_frequency = inverse_frequencies[HIDDEN - 1];
            const float2 value = activations(z, inverse_frequency);
            const float2 factors = derivatives(z, value, inverse_frequency);
            gradient[i] = gradients_before(gradient[i], factors, value);
            pairs[2 * j + i] = pack_saturated(gradient[i].x, gradient[i].y);
        }
    }
}

// ---- sums over the block ---

struct Totals {
    double loss = 0.0, squared_error = 0.0;
    float output_bias[CHANNELS] = {};
};

// Sums the totals over every fourth lane of a warp, because four neighbouring lanes have the same
// points; lane 0 then has the warp's totals.
__device__ __forceinline__ void sum_lanes(Totals& totals) {
#pragma unroll
    for (int distance = 16; distance >= 4; distance /= 2) {
        totals.loss += __shfl_xor_sync(~0u, totals.loss, distance);
        totals.squared_error += __shfl_xor_sync(~0u, totals.squared_error, distance);
        for (int channel = 0; channel < CHANNELS; ++channel)
            totals.output_bias[channel] +=
                __shfl_xor_sync(~0u, totals.output_bias[channel], distance);
    }
}

// Stores a warp's totals in shared memory.
template <typename Shared>
__device__ __forceinline__ void store_totals(Shared& shared, Totals& totals, int warp) {
    sum_lanes(totals);
    if (threadIdx.x % 32 == 0) {
        shared.losses[warp][0] = totals.loss;
        shared.losses[warp][1] = totals.squared_error;
        for (int channel = 0; channel < CHANNELS; ++channel)
            shared.output_bias[warp][channel] = totals.output_bias[channel];
    }
}

// Returns the index in a block's partial sums of number i of a tile's vectors: the sums of the
// output's weights are written as [WIDEST][CHANNELS].
__device__ __forceinline__ int place_of_vector(int i) {
    const int vector = i / WIDEST, column = i % WIDEST;
    return vector < CHANNELS ? column * CHANNELS + vector : i;
}

// Adds up the block's sums in a fixed order, and writes them.
template <typename Shared>
__device__ __forceinline__ void write_partials(const Shared& shared) {
    const auto& arguments = shared.arguments;
    constexpr int parts = sizeof(shared.vectors) / sizeof(shared.vectors[0]);
    for (int i = threadIdx.x; i < VECTORS * WIDEST; i += CONSUMERS) {
        float sum = 0.0f;
        for (int part = 0; part < parts; ++part) sum += (&shared.vectors[part][0][0])[i];
        arguments.vector_partials[size_t(blockIdx.x) * VECTORS * WIDEST + place_of_vector(i)] = sum;
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
