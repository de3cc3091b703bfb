// Layers of at most 64 values with everything at hand: weights and all values of a tile in shared
// memory, and the sums of the weights' gradients in registers.
//
// Constants: those of hopper_batch.cuh.
#pragma once
#include "hopper_batch.cuh"

constexpr int WEIGHT_BYTES = 2 * WIDEST * WIDEST;  // place of a matrix
constexpr int WEIGHTS_BYTES = (HIDDEN - first_product) * WEIGHT_BYTES;

__host__ __device__ constexpr int stream_bytes() {
    int bytes = 0;
    for (int layer = first_product; layer < HIDDEN; ++layer)
        bytes += 2 * fan_in(layer) * width_after[layer];
    return bytes;
}

// A tile's tables: values that go into each layer with a matrix, and into the last layer, whose
// place its slopes take; two more for slopes; derivatives of a sine, for all layers but the last.
constexpr int LAST_VALUES = HIDDEN - first_product;
constexpr int TABLES = LAST_VALUES + 3 + (ACTIVATION == SINE ? HIDDEN - 1 : 0);

struct Arguments {
    const float2* inputs;
    const float* targets;
    const float* pixel_weights;
    const float* parameters;
    const float* frequencies;
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
    // output slopes, coordinates, and these's rounding errors, as left operands
    __half left[BLOCK_TILES][3][8][ROWS_PITCH];
    float outputs[BLOCK_TILES][64][CHANNELS];  // values of all points, for pixels' means
    double losses[4 * BLOCK_TILES][2];
    float output_bias[4 * BLOCK_TILES][CHANNELS];
    uint64_t weights_here;
};

struct Tile : Points {
    char* tables;
    const char* weights;
    Shared& shared;
    Table table;  // of the last layer's values

    __device__ __forceinline__ Table table_at(int place) const {
        return {tables + place * TILE_BYTES, table.number, table.warp, table.lane};
    }

    // Values that go into a layer.
    __device__ __forceinline__ Table values(int layer) const {
        return table_at(layer - first_product);
    }

    // Slopes of a layer's z. All warps have done with a table's product once all have come to the
    // product after the next: three tables in turn need no barrier of their own.
    template <int layer>
    __device__ __forceinline__ Table slopes() const {
        return table_at(LAST_VALUES + (HIDDEN - 1 - layer) % 3);
    }

    // This thread's derivatives of a sine.
    __device__ __forceinline__ uint4* kept(int layer) const {
        return reinterpret_cast<uint4*>(tables + (LAST_VALUES + 3 + layer) * TILE_BYTES) +
               threadIdx.x % 128;
    }

    __device__ __forceinline__ uint32_t weight(int layer) const {
        return shared_address(weights) + (layer - first_product) * WEIGHT_BYTES;
    }
};

// ---- products ------------------------------------------------------------------------------

// What a thread has of its warp's 16 rows of values, as left operand of a product: of each 16
// columns the four pairs that Table::put has.
template <int columns>
__device__ __forceinline__ void load_operand(uint32_t* operand, const Table& table) {
    const int block_row = 2 * table.warp + table.lane / 8 % 2;
    const uint32_t address = shared_address(table.tile) + table.lane % 8 * 16 +
                             (block_row * (columns / 8) + table.lane / 16) * 128;
#pragma unroll
    for (int column = 0; column < columns; column += 16)
        load_matrices(operand + column / 4, address + column / 8 * 128);
}

// sums = operand x matrix, under way when it returns.
template <int rows, int columns>
__device__ __forceinline__ void start_forward(float* sums, const uint32_t* operand,
                                              uint32_t matrix) {
    constexpr int block_row = columns / 8 * 128;
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < rows; k += 16) {
        uint64_t right = block_matrix(matrix + k / 8 * block_row, block_row, 128);
        if (k == 0)
            OperandWgmma<columns>::template set<1>(sums, operand, right);
        else
            OperandWgmma<columns>::template add<1>(sums, operand + k / 4, right);
    }
    wgmma_commit();
}

// sums = operand x (the transpose of a matrix of so many rows and columns), likewise.
template <int rows, int columns>
__device__ __forceinline__ void start_backward(float* sums, const uint32_t* operand,
                                               uint32_t matrix) {
    constexpr int block_row = columns / 8 * 128;
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < columns; k += 16) {
        uint64_t right = block_matrix(matrix + k / 8 * 128, 128, block_row);
        if (k == 0)
            OperandWgmma<rows>::template set<0>(sums, operand, right);
        else
            OperandWgmma<rows>::template add<0>(sums, operand + k / 4, right);
    }
    wgmma_commit();
}

// ---- gradients -----------------------------------------------------------------------------

// Registers that a thread has for the sums of layers before one.
__host__ __device__ constexpr int weight_sums_before(int end) {
    int count = 0;
    for (int layer = first_product; layer < end; ++layer) count += width_after[layer] / 2;
    return count;
}

__host__ __device__ constexpr int bias_sums_before(int end) {
    int count = 0;
    for (int layer = first_product; layer < end; ++layer)
        count += 2 * column_sum_blocks(width_after[layer]);
    return count;
}

// Over all tiles of a warpgroup.
struct Gradients {
    float weights[weight_sums_before(HIDDEN)] = {};
    float biases[bias_sums_before(HIDDEN)] = {};
};

// gradients += (transpose of a layer's values) x slopes. A product of 64 rows reads 64, also where
// there are fewer: from what lies behind, to no effect.
template <int layer>
__device__ __forceinline__ void start_gradient(Gradients& gradients, const Table& values,
                                               const Table& slopes) {
    constexpr int columns = width_after[layer];
    constexpr int value_row = fan_in(layer) / 8 * 128, slope_row = columns / 8 * 128;
    constexpr int sums = weight_sums_before(layer);
    const uint32_t left = shared_address(values.tile), right = shared_address(slopes.tile);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < 4; ++k)
        Wgmma<columns>::template add<1>(gradients.weights + sums,
                                        block_matrix(left + 2 * k * value_row, value_row, 128),
                                        block_matrix(right + 2 * k * slope_row, slope_row, 128));
    wgmma_commit();
}

// Sums of the block's warpgroups, in their order, by way of shared memory.
template <int layer = first_product>
__device__ __forceinline__ void write_gradients(Gradients& gradients, const Shared& shared,
                                                float* scratch, int number) {
    constexpr int columns = width_after[layer], rows = fan_in(layer);
    constexpr int count = columns / 2, blocks = column_sum_blocks(columns);
    constexpr int first_weight = weight_sums_before(layer), first_bias = bias_sums_before(layer);
    float *weights = gradients.weights + first_weight, *biases = gradients.biases + first_bias;
    const int thread = threadIdx.x % 128, warp = thread / 32, lane = thread % 32;
    float* place = scratch + (number - 1) * (count + 2 * blocks) * 128 + thread;
    named_sync<CONSUMERS>(ALL_CONSUMERS);
    if (number > 0) {
#pragma unroll
        for (int i = 0; i < count; ++i) place[i * 128] = weights[i];
#pragma unroll
        for (int i = 0; i < 2 * blocks; ++i) place[(count + i) * 128] = biases[i];
    }
    named_sync<CONSUMERS>(ALL_CONSUMERS);
    if (number == 0) {
#pragma unroll
        for (int other = 1; other < BLOCK_TILES; ++other) {
            place += (count + 2 * blocks) * 128;
#pragma unroll
            for (int i = 0; i < count; ++i) weights[i] += place[i * 128];
#pragma unroll
            for (int i = 0; i < 2 * blocks; ++i) biases[i] += place[(count + i) * 128];
        }
        float* partial =
            shared.arguments.weight_partials[layer] + size_t(blockIdx.x) * rows * columns;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            int row = 16 * warp + lane / 4 + 8 * i;
            if (row < rows)
#pragma unroll
                for (int j = 0; j < columns / 8; ++j)
                    *reinterpret_cast<float2*>(partial + row * columns + 8 * j + own_column()) =
                        make_float2(weights[4 * j + 2 * i], weights[4 * j + 2 * i + 1]);
        }
        write_column_sums<columns>(shared.arguments.bias_partials[layer] + blockIdx.x * columns,
                                   biases);
    }
    if constexpr (layer + 1 < HIDDEN)
        write_gradients<layer + 1>(gradients, shared, scratch, number);
}
