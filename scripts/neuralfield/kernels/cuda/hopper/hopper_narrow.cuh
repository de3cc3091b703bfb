// Layers of at most 64 values with everything at hand: weights and all values of a tile in shared
// memory, and the sums of the weights' gradients in registers.
//
// Constants: those of hopper_batch.cuh.
#pragma once
#include "hopper_batch.cuh"
#include "hopper_operands.cuh"

constexpr int WEIGHT_BYTES = 2 * WIDEST * WIDEST;  // place of a matrix
constexpr int WEIGHTS_BYTES = (HIDDEN - first_product) * WEIGHT_BYTES;

__host__ __device__ constexpr int stream_bytes() {
    int bytes = 0;
    for (int layer = first_product; layer < HIDDEN; ++layer)
        bytes += 2 * fan_in(layer) * width_after[layer];
    return bytes;
}

// Whether a derivative does not follow from the value.
constexpr bool KEEPS_DERIVATIVES =
    ACTIVATION == SINE || ACTIVATION == VARIABLE_SINE || ACTIVATION == GAUSSIAN;

// A tile's tables: values that go into each layer with a matrix, and into the last layer. Then
// - where a warpgroup sums its own tiles: two more for slopes, which take the place of the last
//   values too; derivatives, where they do not follow from values, for all layers but the last;
// - where others sum them (STRANDS): slopes of each layer, in whose place are its derivatives.
constexpr int LAST_VALUES = HIDDEN - first_product;
#ifdef STRANDS
constexpr bool OTHERS_SUM = true;
constexpr int TABLES = LAST_VALUES + 1 + HIDDEN;
#else
constexpr bool OTHERS_SUM = false;
constexpr int TABLES = LAST_VALUES + 3 + (KEEPS_DERIVATIVES ? HIDDEN - 1 : 0);
#endif

// Where the slopes of a layer's z are. All warps of a warpgroup that sums its own tiles have done
// with a table once all have come to the product after the next: three tables in turn need no
// barrier of their own.
__host__ __device__ constexpr int place_of_slopes(int layer) {
    return LAST_VALUES + (OTHERS_SUM ? 1 + layer : (HIDDEN - layer) % 3);
}

struct Arguments {
    const float2* inputs;
    const float* targets;
    const float* pixel_weights;
    const float* parameters;
    const float* frequencies;
    const uint32_t* features;        // of a hash grid, in pairs of float16: [INPUT_WIDTH / 2][row]
    uint32_t* feature_slopes;        // of the loss, likewise
    const char* weights;             // matrices one after another: see hopper_pack.cu
    float* weight_partials[HIDDEN];  // [block][fan_in][width], both padded
    float* bias_partials[HIDDEN];    // [block][width]
    float* vector_partials;          // [block], each [WIDEST][CHANNELS] of the output
                                     // and [COORDINATE_VECTORS][WIDEST] of the input
    float* output_bias_partials;     // [block][CHANNELS]
    double2* loss_partials;          // [block]
    Offsets offsets;
};

struct Shared {
    Arguments arguments;
    Constants constants;
    __align__(16) float vectors[BLOCK_TILES][VECTORS][WIDEST];
    // 8 numbers of each point: output slopes, coordinates, and these's rounding errors
    __align__(16) uint4 noted[BLOCK_TILES][3][64];
    uint4 ones[16];
    float outputs[BLOCK_TILES][64][CHANNELS];  // values of all points, for pixels' means
    double losses[4 * BLOCK_TILES][2];
    float output_bias[4 * BLOCK_TILES][CHANNELS];
    uint64_t weights_here;
};

struct Tile : Points {
    char* tables;
    const char* matrices;
    Shared& shared;
    Table table;   // of the last layer's values
    Points& next;  // of the tile after this one

    __device__ __forceinline__ void fetch_next() const {
        if (next.index < TILES) next.fetch(shared.arguments, table);
    }

    __device__ __forceinline__ Table table_at(int place) const {
        return {tables + place * TILE_BYTES, table.number, table.warp, table.lane};
    }

    // Values that go into a layer.
    __device__ __forceinline__ Table values(int layer) const {
        return table_at(layer - first_product);
    }

    template <int layer>
    __device__ __forceinline__ Table slopes() const {
        return table_at(place_of_slopes(layer));
    }

    // This thread's derivatives that do not follow from values, of 16 columns: where its warp's
    // slopes will be.
    template <int columns>
    __device__ __forceinline__ uint4* kept(int layer, int column) const {
        const int place = OTHERS_SUM ? place_of_slopes(layer) : LAST_VALUES + 3 + layer;
        return reinterpret_cast<uint4*>(tables + place * TILE_BYTES) +
               (table.warp * (columns / 16) + column / 16) * 32 + table.lane;
    }

    __device__ __forceinline__ uint32_t matrix(int layer) const {
        return shared_address(matrices) + (layer - first_product) * WEIGHT_BYTES;
    }
};

// ---- products ------------------------------------------------------------------------------

// sums = operand x matrix, under way when it returns.
template <int rows, int columns>
__device__ __forceinline__ void start_forward(float* sums, const uint32_t* operand,
                                              uint32_t matrix) {
    constexpr int block_row = columns / 8 * 128;
    const uint64_t right = block_matrix(matrix, block_row, 128);
    wgmma_fence();
    OperandWgmma<columns>::template set<1>(sums, operand, right);
#pragma unroll
    for (int k = 16; k < rows; k += 16)
        OperandWgmma<columns>::template add<1>(sums, operand + k / 4,
                                               part_of(right, k / 8 * block_row));
    wgmma_commit();
}

// sums = operand x (the transpose of a matrix of so many rows and columns), likewise.
template <int rows, int columns>
__device__ __forceinline__ void start_backward(float* sums, const uint32_t* operand,
                                               uint32_t matrix) {
    const uint64_t right = block_matrix(matrix, 128, columns / 8 * 128);
    wgmma_fence();
    OperandWgmma<rows>::template set<0>(sums, operand, right);
#pragma unroll
    for (int k = 16; k < columns; k += 16)
        OperandWgmma<rows>::template add<0>(sums, operand + k / 4, part_of(right, k / 8 * 128));
    wgmma_commit();
}

// ---- gradients -----------------------------------------------------------------------------

// Registers that a thread has for the sums of layers before one.
__host__ __device__ constexpr int weight_sums_before(int end) {
    int count = 0;
    for (int layer = first_product; layer < end; ++layer) count += width_after[layer] / 2;
    return count;
}

// Over all tiles of a warpgroup; for sums of four see start_sums.
struct Gradients {
    float weights[weight_sums_before(HIDDEN)] = {};
    float biases[HIDDEN][4] = {};
    float output[4] = {};
    float coordinates[4] = {};

    template <int layer>
    __device__ __forceinline__ float* weights_of() {
        constexpr int place = weight_sums_before(layer);
        return weights + place;
    }

    __device__ __forceinline__ void finish() {
        finished_sums<weight_sums_before(HIDDEN)>(weights);
        finished_sums<4 * HIDDEN>(&biases[0][0]);
        finished_sums<4>(output);
        finished_sums<4>(coordinates);
    }
};

// gradient += (transpose of a layer's values) x slopes, between a fence and a commit. A product of
// 64 rows reads 64, also where there are fewer: from what lies behind, to no effect.
template <int layer>
__device__ __forceinline__ void start_gradient(float* gradient, const Table& values,
                                               const Table& slopes) {
    constexpr int columns = width_after[layer];
    constexpr int value_row = fan_in(layer) / 8 * 128, slope_row = columns / 8 * 128;
    const uint64_t left = block_matrix(shared_address(values.tile), value_row, 128);
    const uint64_t right = block_matrix(shared_address(slopes.tile), slope_row, 128);
#pragma unroll
    for (int k = 0; k < 4; ++k)
        Wgmma<columns>::template add<1>(gradient, part_of(left, 2 * k * value_row),
                                        part_of(right, 2 * k * slope_row));
}

// sums += (transpose of a tile) x (8 numbers of each point), likewise. The numbers of 16 points are
// `step` bytes behind those of 16 before. sums[2 i + e] is column 16 warp + lane / 4 + 8 i, number
// 2 (lane % 4) + e.
template <int columns>
__device__ __forceinline__ void start_sums(float (&sums)[4], const Table& table,
                                           const uint4* numbers, int step = 256) {
    constexpr int block_row = columns / 8 * 128;
    const uint64_t left = block_matrix(shared_address(table.tile), block_row, 128);
    const uint64_t right = block_matrix(shared_address(numbers), 128, 128);
#pragma unroll
    for (int k = 0; k < 4; ++k)
        Wgmma<8>::add<1>(sums, part_of(left, 2 * k * block_row), part_of(right, k * step));
}

// Sums of so many numbers of each point, to their places in shared memory.
template <int columns>
__device__ __forceinline__ void put_vectors(const float (&sums)[4], float (*vectors)[WIDEST],
                                            int count, const Table& table) {
    if (16 * table.warp < columns)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            int vector = table.lane % 4 * 2 + i % 2;
            if (vector < count)
                vectors[vector][16 * table.warp + 8 * (i / 2) + table.lane / 4] = sums[i];
        }
}

// The sums of a layer that a warpgroup has, as a part of the gradient.
template <int layer>
__device__ __forceinline__ void write_part(const float* weights, const float* biases,
                                           const Arguments& arguments, int part) {
    constexpr int columns = width_after[layer], rows = fan_in(layer);
    const int warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
    float* partial = arguments.weight_partials[layer] + size_t(part) * rows * columns;
    float* bias_partial = arguments.bias_partials[layer] + part * columns;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        int own = 16 * warp + lane / 4 + 8 * i;
        if (own < rows)
#pragma unroll
            for (int j = 0; j < columns / 8; ++j)
                *reinterpret_cast<float2*>(partial + own * columns + 8 * j + own_column()) =
                    make_float2(weights[4 * j + 2 * i], weights[4 * j + 2 * i + 1]);
        if (own < columns && lane % 4 == 0) bias_partial[own] = biases[2 * i];
    }
}

// Sums of the block's warpgroups, in their order, by way of shared memory.
template <int layer = first_product>
__device__ __forceinline__ void write_gradients(Gradients& gradients, const Shared& shared,
                                                float* scratch, int number) {
    constexpr int count = width_after[layer] / 2, first = weight_sums_before(layer);
    float *weights = gradients.weights + first, *biases = gradients.biases[layer];
    const int thread = threadIdx.x % 128;
    float* place = scratch + (number - 1) * (count + 2) * 128 + thread;
    named_sync<CONSUMERS>(ALL_CONSUMERS);
    if (number > 0) {
#pragma unroll
        for (int i = 0; i < count; ++i) place[i * 128] = weights[i];
        place[count * 128] = biases[0];
        place[(count + 1) * 128] = biases[2];
    }
    named_sync<CONSUMERS>(ALL_CONSUMERS);
    if (number == 0) {
#pragma unroll
        for (int other = 1; other < BLOCK_TILES; ++other) {
            place += (count + 2) * 128;
#pragma unroll
            for (int i = 0; i < count; ++i) weights[i] += place[i * 128];
            biases[0] += place[count * 128];
            biases[2] += place[(count + 1) * 128];
        }
        write_part<layer>(weights, biases, shared.arguments, blockIdx.x);
    }
    if constexpr (layer + 1 < HIDDEN)
        write_gradients<layer + 1>(gradients, shared, scratch, number);
}
