// Layers of at most 64 values, with all data on the chip: weights and all values of a tile in
// shared memory, and the sums of the weights' gradients in registers.
//
// Constants: those of batch.cuh.
#pragma once
#include "narrow_output.cuh"

constexpr int WEIGHT_BYTES = 2 * WIDEST * WIDEST;  // reserved for a matrix
constexpr int WEIGHTS_BYTES = (HIDDEN - first_product) * WEIGHT_BYTES;

// A tile's buffers: the input values of each layer with a matrix, and of the last layer; two more
// for gradients, which also use the buffer of the last values; and the derivatives of all layers
// but the last, unless they follow from values.
constexpr int LAST_VALUES = HIDDEN - first_product;
constexpr int STORED_PARTS = has_features ? 1 : 2;  // buffers of 8 numbers of each point
static_assert(VECTORS <= 8, "more numbers of a point than are stored");
constexpr int BUFFERS = LAST_VALUES + 3 + (KEEPS_DERIVATIVES ? HIDDEN - 1 : 0);

// Returns the buffer of the gradients of a layer's z. All warps have finished with a buffer when all
// of them have reached the product after the next one, so three buffers that are used in turn need
// no additional barrier.
__host__ __device__ constexpr int place_of_gradients(int layer) {
    return LAST_VALUES + (HIDDEN - layer) % 3;
}

// Rows of the matrix whose product is added to a layer's product, and its place: see put_affine.
__host__ __device__ constexpr int affine_rows(int layer) { return layer < first_product ? 16 : 8; }

__host__ __device__ constexpr int place_of_affine(int end) {
    int place = 0;
    for (int layer = 0; layer < end; ++layer) place += affine_rows(layer) * WIDEST;
    return place;
}

struct Arguments : BatchArguments {
    const uint32_t* features;        // of a hash grid, in pairs of float16: [INPUT_WIDTH / 2][row]
    uint32_t* feature_gradients;     // of the loss, likewise
    const char* weights;             // matrices one after another: see pack.cu
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
    union {
        uint4 stored[BLOCK_TILES][STORED_PARTS]
                    [64];  // 8 numbers of each point: see store_gradients
        float vectors[BLOCK_TILES][VECTORS][WIDEST];  // after all tiles
    };
    uint4 ones[16];
    __align__(128) __half affine[place_of_affine(HIDDEN)];  // of all layers: see put_affine
    __half output[OUTPUT_COLUMNS * LAST_WIDTH];             // see put_output
    float outputs[BLOCK_TILES][64][CHANNELS];  // values of all points, for pixels' means
    double losses[4 * BLOCK_TILES][2];
    float output_bias[4 * BLOCK_TILES][CHANNELS];
    uint64_t weights_here;
};

struct Tile : PointsOf<true> {
    char* buffers;
    const char* matrices;
    Shared& shared;
    TileBuffer buffer;     // of the last layer's values
    PointsOf<true>& next;  // of the tile after this one

    __device__ __forceinline__ void fetch_next() const {
        if (next.index < TILES) next.fetch(shared.arguments, buffer);
    }

    __device__ __forceinline__ TileBuffer buffer_at(int place) const {
        return {buffers + place * TILE_BYTES, buffer.number, buffer.warp, buffer.lane};
    }

    // The input values of a layer.
    __device__ __forceinline__ TileBuffer values(int layer) const {
        return buffer_at(layer - first_product);
    }

    template <int layer>
    __device__ __forceinline__ TileBuffer z_gradients() const {
        return buffer_at(place_of_gradients(layer));
    }

    // The place of this thread's derivatives of 16 columns, if they do not follow from values.
    template <int columns>
    __device__ __forceinline__ uint4* kept(int layer, int column) const {
        return reinterpret_cast<uint4*>(buffers + (LAST_VALUES + 3 + layer) * TILE_BYTES) +
               (buffer.warp * (columns / 16) + column / 16) * 32 + buffer.lane;
    }

    __device__ __forceinline__ uint32_t matrix(int layer) const {
        return shared_address(matrices) + (layer - first_product) * WEIGHT_BYTES;
    }

    __device__ __forceinline__ uint32_t affine(int layer) const {
        return shared_address(shared.affine) + 2 * place_of_affine(layer);
    }

    __device__ __forceinline__ uint32_t output_matrix() const {
        return shared_address(shared.output);
    }
};

// ---- biases, and the first layer without a matrix --------------------------------------------

// The numbers that are added to a layer's product are themselves a product: of the row (1, 1, x,
// x', y, y', 0, 0), repeated twice, and a matrix of 16 rows. The rows of the matrix are bias,
// bias', wx, wx, wy, wy, 0, 0, then 0, 0, wx', wx', wy', wy', 0, 0. Each number is the sum of two
// float16 numbers, which is exact to 22 bits or, where the number is small, to 3e-8: for example,
// x' is x minus x rounded to float16. A layer with a matrix has only the first 8 rows, of which its
// operand uses the first two, the bias.
template <int layer = 0>
__device__ __forceinline__ void put_affine(Shared& shared) {
    constexpr int columns = width_after[layer];
    const Constants& constants = shared.constants;
    for (int column = threadIdx.x; column < columns; column += blockDim.x) {
        const int place = place_of_constant(column);
        const float numbers[3] = {constants.bias[layer][place],
                                  layer < first_product ? constants.x_weight[place] : 0.0f,
                                  layer < first_product ? constants.y_weight[place] : 0.0f};
        __half high[3], low[3];
#pragma unroll
        for (int i = 0; i < 3; ++i) {
            high[i] = __float2half_rn(numbers[i]);
            low[i] = __float2half_rn(numbers[i] - __half2float(high[i]));
        }
        const __half zero = 0.0f;
        const __half rows[16] = {high[0], low[0], high[1], high[1], high[2], high[2], zero, zero,
                                 zero,    zero,   low[1],  low[1],  low[2],  low[2],  zero, zero};
#pragma unroll
        for (int row = 0; row < affine_rows(layer); ++row)
            shared.affine[place_of_affine(layer) + place_in_blocks(row, column, columns)] =
                rows[row];
    }
    if constexpr (layer + 1 < HIDDEN) put_affine<layer + 1>(shared);
}

// Sets the left operand of this product for a layer with a matrix: only the ones, once.
__device__ __forceinline__ void affine_operand(uint32_t (&operand)[4]) {
    const uint32_t two_ones = 0x3C003C00;
    operand[0] = operand[1] = threadIdx.x % 4 == 0 ? two_ones : 0;
    operand[2] = operand[3] = 0;
}

// Sets it for a first layer without a matrix, from this thread's points.
__device__ __forceinline__ void affine_operand(uint32_t (&operand)[4], const float2 (&points)[2]) {
    affine_operand(operand);
    const int own = threadIdx.x % 4;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const float number = own == 1 ? points[i].x : points[i].y;
        const float rest = number - __half2float(__float2half_rn(number));
        if (own == 1 || own == 2) operand[i] = pack(number, rest);
        operand[2 + i] = operand[i];
    }
}

// ---- products ------------------------------------------------------------------------------

// Starts sums = operand x matrix + bias; the product may still run when the function returns.
template <int rows, int columns>
__device__ __forceinline__ void start_forward(float* sums, const uint32_t* operand, uint32_t matrix,
                                              uint32_t affine) {
    constexpr int block_row = columns / 8 * 128;
    const auto right = block_matrix(matrix, block_row, 128);
    uint32_t ones[4];
    affine_operand(ones);
    begin_products();
    OperandProduct<columns>::template set<1>(sums, ones, block_matrix(affine, 0, 128));
#pragma unroll
    for (int k = 0; k < rows; k += 16)
        OperandProduct<columns>::template add<1>(sums, operand + k / 4,
                                               part_of(right, k / 8 * block_row));
    commit_products();
}

// Starts the sums of a first layer without a matrix.
template <int columns>
__device__ __forceinline__ void start_first(float* sums, const float2 (&points)[2],
                                            uint32_t affine) {
    constexpr int block_row = columns / 8 * 128;
    uint32_t coordinates[4];
    affine_operand(coordinates, points);
    begin_products();
    OperandProduct<columns>::template set<1>(sums, coordinates, block_matrix(affine, block_row, 128));
    commit_products();
}

// Starts sums = operand x (the transpose of a matrix of `rows` rows and `columns` columns).
template <int rows, int columns>
__device__ __forceinline__ void start_backward(float* sums, const uint32_t* operand,
                                               uint32_t matrix) {
    const auto right = block_matrix(matrix, 128, columns / 8 * 128);
    begin_products();
    OperandProduct<rows>::template set<0>(sums, operand, right);
#pragma unroll
    for (int k = 16; k < columns; k += 16)
        OperandProduct<rows>::template add<0>(sums, operand + k / 4, part_of(right, k / 8 * 128));
    commit_products();
}

// ---- gradients -----------------------------------------------------------------------------

// The number of a thread's registers for the sums of all layers before layer `end`.
__host__ __device__ constexpr int weight_sums_before(int end) {
    int count = 0;
    for (int layer = first_product; layer < end; ++layer) count += width_after[layer] / 2;
    return count;
}

// Sums of gradients over all tiles of a warpgroup; for arrays of four or eight see start_sums.
struct Gradients {
    float weights[weight_sums_before(HIDDEN)] = {};
    float biases[HIDDEN][4] = {};
    float output[4] = {};
    float coordinates[8] = {};
    LaneTotals totals;

    template <int layer>
    __device__ __forceinline__ float* weights_of() {
        constexpr int place = weight_sums_before(layer);
        return weights + place;
    }

    __device__ __forceinline__ void finish() {
        finished_sums<weight_sums_before(HIDDEN)>(weights);
        finished_sums<4 * HIDDEN>(&biases[0][0]);
        finished_sums<4>(output);
        finished_sums<8>(coordinates);
    }
};

// gradient += (transpose of a layer's values) x gradients, between a fence and a commit. A product
// always reads 64 rows; if there are fewer, it reads memory behind them, which has no effect.
template <int layer>
__device__ __forceinline__ void start_gradient(float* gradient, const TileBuffer& values,
                                               const TileBuffer& z_gradients) {
    constexpr int columns = width_after[layer];
    constexpr int value_row = fan_in(layer) / 8 * 128, gradient_row = columns / 8 * 128;
    if (!WGMMA && 16 * z_gradients.warp >= fan_in(layer)) return;
    const auto left = block_matrix(shared_address(values.tile), value_row, 128);
    const auto right = block_matrix(shared_address(z_gradients.tile), gradient_row, 128);
#pragma unroll
    for (int k = 0; k < 4; ++k)
        TileProduct<columns>::template add<1>(gradient, part_of(left, 2 * k * value_row),
                                        part_of(right, 2 * k * gradient_row));
}

// sums += (transpose of a tile) x (8 numbers of each point), between a fence and a commit. The
// numbers of each 16 points begin `step` bytes after those of the 16 points before. sums[2 i + e]
// is column 16 warp + lane / 4 + 8 i, number 2 (lane % 4) + e. If there are eight sums, the last
// four are those of the next buffer of numbers.
template <int columns, int count>
__device__ __forceinline__ void start_sums(float (&sums)[count], const TileBuffer& buffer,
                                           const uint4* numbers, int step = 256) {
    constexpr int block_row = columns / 8 * 128;
    if (!WGMMA && 16 * buffer.warp >= columns) return;
    const auto left = block_matrix(shared_address(buffer.tile), block_row, 128);
    const auto right = block_matrix(shared_address(numbers), 128, 64 * sizeof(uint4));
#pragma unroll
    for (int k = 0; k < 4; ++k)
        TileProduct<2 * count>::template add<1>(sums, part_of(left, 2 * k * block_row),
                                          part_of(right, k * step));
}

// Calls `put` with each of a thread's sums of the even numbers 0, 2, ..., of which there are
// `count`: `put` gets half the number plus `first`, the column and the sum. For the odd numbers, pass
// sums + 1.
template <int columns, int count, typename Put>
__device__ __forceinline__ void for_sums(const float* sums, const TileBuffer& buffer, int first,
                                         const Put& put) {
    const int number = buffer.lane % 4;
    if (16 * buffer.warp < columns && number < count)
#pragma unroll
        for (int i = 0; i < 2; ++i)
            put(first + number, 16 * buffer.warp + 8 * i + buffer.lane / 4, sums[2 * i]);
}

// Writes a warpgroup's sums of a layer as a partial sum of the gradient.
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

// Adds up the sums of the block's warpgroups in a fixed order, through shared memory, and writes
// them.
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
