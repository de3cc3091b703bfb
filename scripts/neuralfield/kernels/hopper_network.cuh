// A network over tiles of 64 points. A tile's values lie in shared memory, as the left operand of the
// next matrix product, while weights stream past; sums and activations are in registers.
//
// Constants: HIDDEN (layers with an activation), WIDTHS, INPUT_WIDTH (padded to multiples of
// 16), REAL_WIDTHS, ACTIVATIONS, FREQUENCIES, ENCODING (0 identity, 1 corners, 2 fourier),
// FOURIER_COUNT, CHANNELS, BLOCK_TILES (tiles that a block works on at once, with a warpgroup each),
// STAGES, STAGE_BYTES, and those of loss.cuh.
//
// Thread `lane` of warp w has rows 16 w + lane / 4 (and 8 below it) of its tile, and of every 8
// columns the two at 2 (lane % 4): sums[4 j + 2 i + e] is row i, column 8 j + e.
#pragma once
#include "hopper.cuh"
#include "loss.cuh"

enum Encoding { IDENTITY, CORNERS, FOURIER };
enum ActivationName { SINE, TANH, RELU, SIGMOID };

constexpr int width_after[HIDDEN] = WIDTHS;
constexpr int activation_of[HIDDEN] = ACTIVATIONS;
constexpr int first_product = ENCODING == FOURIER ? 0 : 1;  // layers before have 2 inputs: no matrix

__host__ __device__ constexpr int fan_in(int layer) { return layer == 0 ? INPUT_WIDTH : width_after[layer - 1]; }

__host__ __device__ constexpr int largest_width() {
    int largest = ENCODING == FOURIER ? INPUT_WIDTH : 16;
    for (int layer = 0; layer < HIDDEN; ++layer)
        largest = width_after[layer] > largest ? width_after[layer] : largest;
    return largest;
}

constexpr int WIDEST = largest_width();
constexpr int CONSUMERS = 128 * BLOCK_TILES;
constexpr int TILE_BYTES = 64 * WIDEST * 2;
constexpr int PRODUCER_REGISTERS = 24;
// A block starts with all registers of a processor, shared out evenly; then consumers take what the
// producer gives.
constexpr int REGISTERS_AT_START = 512 / (BLOCK_TILES + 1) / 8 * 8;
constexpr int CONSUMER_REGISTERS =
    (REGISTERS_AT_START * (BLOCK_TILES + 1) - PRODUCER_REGISTERS) / BLOCK_TILES / 8 * 8;
constexpr int ALL_CONSUMERS = 15;  // name of their barrier
constexpr int LAST_WIDTH = width_after[HIDDEN - 1];

// How many layers from this one on (or back, with step -1) are alike, so that one loop can do them:
// instructions of a few thousand registers' worth of numbers must fit the instruction cache.
__host__ __device__ constexpr int layers_alike(int layer, int step) {
    int count = 1;
    for (int next = layer + step; next >= 1 && next < HIDDEN; next += step, ++count)
        if (fan_in(next) != fan_in(layer) || width_after[next] != width_after[layer] ||
            activation_of[next - 1] != activation_of[layer - 1])
            break;
    return count;
}

// Rows of a matrix with `columns` columns that are copied together.
__host__ __device__ constexpr int rows_per_chunk(int rows, int columns) {
    int fitting = STAGE_BYTES / (2 * columns) / 16 * 16;
    return fitting < rows ? fitting : rows;
}

__host__ __device__ constexpr int chunk_count(int rows, int columns) {
    int size = rows_per_chunk(rows, columns);
    return (rows + size - 1) / size;
}

__host__ __device__ constexpr int stream_chunks(bool backward) {
    int count = 0;
    for (int layer = first_product; layer < HIDDEN; ++layer)
        count += chunk_count(fan_in(layer), width_after[layer]);
    for (int layer = 1; backward && layer < HIDDEN; ++layer)
        count += chunk_count(width_after[layer], fan_in(layer));
    return count;
}

// ---- activations ---------------------------------------------------------------------------

template <int name> __device__ __forceinline__ float activation(float z) {
    if constexpr (name == SINE) return __sinf(z);
    if constexpr (name == TANH) return 1.0f - __fdividef(2.0f, __expf(2.0f * z) + 1.0f);
    if constexpr (name == RELU) return fmaxf(z, 0.0f);
    return __fdividef(1.0f, 1.0f + __expf(-z));
}

// The derivative, given z and the value.
template <int name> __device__ __forceinline__ float derivative(float z, float value) {
    if constexpr (name == SINE) return __cosf(z);
    if constexpr (name == TANH) return 1.0f - value * value;
    if constexpr (name == RELU) return z > 0.0f ? 1.0f : 0.0f;
    return value * (1.0f - value);
}

// ---- the stream of weights -----------------------------------------------------------------

struct Stream {
    char* buffer;     // STAGES x STAGE_BYTES of shared memory
    uint64_t* filled;  // STAGES barriers each
    uint64_t* emptied;
};

// With a place for every chunk, the weights are brought once and stay.
template <bool backward> __host__ __device__ constexpr bool is_resident() { return stream_chunks(backward) <= STAGES; }

// One matrix, by one thread that does nothing else.
template <int rows, int columns, bool resident>
__device__ __forceinline__ void send_matrix(const Stream& stream, RingPlace& place,
                                            const char*& source) {
    constexpr int size = rows_per_chunk(rows, columns);
    for (int row = 0; row < rows; row += size) {
        int bytes = 2 * columns * min(size, rows - row);
        if (!resident) barrier_wait(&stream.emptied[place.stage], place.parity ^ 1);
        barrier_expect_bytes(&stream.filled[place.stage], bytes);
        bulk_copy(stream.buffer + place.stage * STAGE_BYTES, source, bytes,
                  &stream.filled[place.stage]);
        source += bytes;
        place.advance(STAGES);
    }
}

template <int layer, bool resident>
__device__ __forceinline__ void send_forward(const Stream& stream, RingPlace& place,
                                             const char*& source) {
    if constexpr (layer < HIDDEN) {
        send_matrix<fan_in(layer), width_after[layer], resident>(stream, place, source);
        send_forward<layer + 1, resident>(stream, place, source);
    }
}

template <int layer, bool resident>
__device__ __forceinline__ void send_backward(const Stream& stream, RingPlace& place,
                                              const char*& source) {
    if constexpr (layer >= 1) {
        send_matrix<width_after[layer], fan_in(layer), resident>(stream, place, source);
        send_backward<layer - 1, resident>(stream, place, source);
    }
}

// All matrices, once for every tile.
template <bool backward>
__device__ __forceinline__ void send_weights(const Stream& stream, const char* weights, int tiles) {
    RingPlace place;
    constexpr bool resident = is_resident<backward>();
    for (int tile = 0; tile < (resident ? 1 : tiles); ++tile) {
        const char* source = weights;
        send_forward<first_product, resident>(stream, place, source);
        if constexpr (backward) send_backward<HIDDEN - 1, resident>(stream, place, source);
    }
}

// sums = (the tile's values) x (the next matrix of the stream).
template <int rows, int columns, bool resident>
__device__ __forceinline__ void multiply(float* sums, const char* tile, const Stream& stream,
                                         RingPlace& place) {
    constexpr int size = rows_per_chunk(rows, columns);
    constexpr int block_row = columns / 8 * 128;
    const uint32_t values = shared_address(tile);
    int previous = -1;
#pragma unroll
    for (int row = 0; row < rows; row += size) {
        barrier_wait(&stream.filled[place.stage], resident ? 0 : place.parity);
        uint32_t chunk = shared_address(stream.buffer + place.stage * STAGE_BYTES);
        wgmma_fence();
#pragma unroll
        for (int k = 0; k < size && row + k < rows; k += 16)
            Wgmma<columns>::template add<0>(
                sums, block_matrix(values + (row + k) * 16, 128, rows / 8 * 128),
                block_matrix(chunk + k / 8 * block_row, block_row, 128), row + k > 0);
        wgmma_commit();
        if (!resident) {
            wgmma_wait<1>();
            if (previous >= 0 && threadIdx.x % 32 == 0) barrier_arrive(&stream.emptied[previous]);
            previous = place.stage;
        }
        place.advance(STAGES);
    }
    wgmma_wait<0>();
    finished_sums<columns / 2>(sums);
    if (!resident && threadIdx.x % 32 == 0) barrier_arrive(&stream.emptied[previous]);
}

// ---- a tile's table ------------------------------------------------------------------------

// Where the threads of a tile lay out values for each other.
struct Table {
    char* tile;             // 64 rows in blocks of 8 x 8 numbers, row by row of blocks
    int number;             // of the tile in its block
    int warp, lane;         // of this thread; a warp is 0 to 3

    __device__ __forceinline__ void sync() const { named_sync<128>(1 + number); }
    __device__ __forceinline__ bool is_first() const { return threadIdx.x % 128 == 0; }

    // Lay down 16 columns of a tile with so many: pairs[2 j + i] is row i of the j-th 8 columns.
    template <int columns>
    __device__ __forceinline__ void put(int column, const uint32_t (&pairs)[4]) const {
        int block_row = 2 * warp + lane / 8 % 2, block = column / 8 + lane / 16;
        store_matrices(shared_address(tile) + (block_row * (columns / 8) + block) * 128 +
                           lane % 8 * 16,
                       pairs);
    }

    // Before a tile is laid out: all have done with the one before.
    __device__ __forceinline__ void clear() const {
        if (is_first()) bulk_stores_read();
        sync();
    }

    // After it: all may read it.
    __device__ __forceinline__ void show() const {
        shared_written();
        sync();
    }
};

// ---- the layers ----------------------------------------------------------------------------

// What all threads of a block read again and again, in shared memory.
struct __align__(16) Constants {
    float x_weight[WIDEST];  // first layer without a matrix: z = x wx + y wy + bias
    float y_weight[WIDEST];  // fourier: frequencies in cycles
    float phase[WIDEST];     // fourier: 0 for sines, a quarter for cosines
    float bias[HIDDEN][WIDEST];
    float output_weight[CHANNELS][WIDEST];
    float output_bias[CHANNELS];
};

// Where the parameters lie in the flat array; a bias of -1: none.
struct Offsets {
    int weight[HIDDEN + 1], bias[HIDDEN + 1];
};

__device__ inline void load_constants(Constants& constants, const float* parameters,
                                      const float* frequencies, const Offsets& offsets) {
    constexpr int real_widths[HIDDEN] = REAL_WIDTHS;
    constexpr float factors[HIDDEN] = FREQUENCIES;
    const int first = real_widths[0], last = real_widths[HIDDEN - 1];
    for (int i = threadIdx.x; i < WIDEST; i += blockDim.x) {
        float x = 0.0f, y = 0.0f, phase = 0.0f, shift = 0.0f;
        if (ENCODING == FOURIER) {
            int wave = i < FOURIER_COUNT ? i : i - FOURIER_COUNT;
            if (wave < FOURIER_COUNT) {
                x = frequencies[wave];
                y = frequencies[FOURIER_COUNT + wave];
                phase = i < FOURIER_COUNT ? 0.0f : 0.25f;
            }
        } else if (i < first) {
            const float* weight = parameters + offsets.weight[0] + (ENCODING == CORNERS) * first;
            x = factors[0] * weight[i];
            y = factors[0] * weight[first + i];
            if (ENCODING == CORNERS) shift = factors[0] * parameters[offsets.weight[0] + i];
        }
        constants.x_weight[i] = x;
        constants.y_weight[i] = y;
        constants.phase[i] = phase;
#pragma unroll
        for (int layer = 0; layer < HIDDEN; ++layer) {
            float bias = layer == 0 ? shift : 0.0f;
            if (offsets.bias[layer] >= 0 && i < real_widths[layer])
                bias += factors[layer] * parameters[offsets.bias[layer] + i];
            constants.bias[layer][i] = bias;
        }
        for (int channel = 0; channel < CHANNELS; ++channel)
            constants.output_weight[channel][i] =
                i < last ? parameters[offsets.weight[HIDDEN] + i * CHANNELS + channel] : 0.0f;
        if (i < CHANNELS)
            constants.output_bias[i] =
                offsets.bias[HIDDEN] >= 0 ? parameters[offsets.bias[HIDDEN] + i] : 0.0f;
    }
}

__device__ __forceinline__ float2 pair_at(const float* values, int column) {
    return *reinterpret_cast<const float2*>(values + column);
}

// First column of this thread in every 8.
__device__ __forceinline__ int own_column() { return threadIdx.x % 4 * 2; }

// The waves of the two points of this thread, as values of a tile.
__device__ __forceinline__ void encode(const Table& table, const float2 (&points)[2],
                                       const Constants& constants) {
    table.clear();
#pragma unroll
    for (int column = 0; column < INPUT_WIDTH; column += 16) {
        uint32_t pairs[4];
#pragma unroll
        for (int j = 0; j < 2; ++j) {
            int own = column + 8 * j + own_column();
            float2 x = pair_at(constants.x_weight, own), y = pair_at(constants.y_weight, own);
            float2 phase = pair_at(constants.phase, own);
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                float low = fmaf(points[i].x, x.x, points[i].y * y.x) + phase.x;
                float high = fmaf(points[i].x, x.y, points[i].y * y.y) + phase.y;
                const float turn = 6.283185307f;
                pairs[2 * j + i] =
                    pack(__sinf(turn * (low - rintf(low))), __sinf(turn * (high - rintf(high))));
            }
        }
        table.put<INPUT_WIDTH>(column, pairs);
    }
    table.show();
}

// Sums of a first layer that has no matrix; its bias comes with the activation.
__device__ __forceinline__ void place_coordinates(const Table& table, float* sums,
                                                  const float2 (&points)[2],
                                                  const Constants& constants) {
    constexpr int columns = width_after[0];
#pragma unroll
    for (int j = 0; j < columns / 8; ++j) {
        int own = 8 * j + own_column();
        float2 x = pair_at(constants.x_weight, own), y = pair_at(constants.y_weight, own);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            sums[4 * j + 2 * i] = fmaf(points[i].x, x.x, points[i].y * y.x);
            sums[4 * j + 2 * i + 1] = fmaf(points[i].x, x.y, points[i].y * y.y);
        }
    }
}

// Output numbers z of both points. Where `keep`, the last hidden layer's z replace the sums, and its
// values are laid out.
template <bool keep>
__device__ __forceinline__ void output_layer(float (&z)[2][CHANNELS], const Table& table, float* sums,
                                             const Constants& constants) {
    constexpr int layer = HIDDEN - 1, columns = LAST_WIDTH, name = activation_of[layer];
#pragma unroll
    for (int channel = 0; channel < CHANNELS; ++channel) z[0][channel] = z[1][channel] = 0.0f;
    if (keep) table.clear();
#pragma unroll
    for (int column = 0; column < columns; column += 16) {
        uint32_t pairs[4];
#pragma unroll
        for (int j = 0; j < 2; ++j) {
            int own = column + 8 * j + own_column();
            float2 bias = pair_at(constants.bias[layer], own);
            float value[2][2];
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                float* sum = sums + column / 2 + 4 * j + 2 * i;
                float low = sum[0] + bias.x, high = sum[1] + bias.y;
                value[i][0] = activation<name>(low);
                value[i][1] = activation<name>(high);
                if (keep) {
                    sum[0] = low;
                    sum[1] = high;
                    pairs[2 * j + i] = pack(value[i][0], value[i][1]);
                }
            }
#pragma unroll
            for (int channel = 0; channel < CHANNELS; ++channel) {
                float2 weight = pair_at(constants.output_weight[channel], own);
#pragma unroll
                for (int i = 0; i < 2; ++i)
                    z[i][channel] += value[i][0] * weight.x + value[i][1] * weight.y;
            }
        }
        if (keep) table.put<columns>(column, pairs);
    }
#pragma unroll
    for (int channel = 0; channel < CHANNELS; ++channel)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            z[i][channel] += __shfl_xor_sync(~0u, z[i][channel], 1);
            z[i][channel] += __shfl_xor_sync(~0u, z[i][channel], 2);
            z[i][channel] += constants.output_bias[channel];
        }
}
