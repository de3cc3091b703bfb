// Fused forward pass, loss and backward pass of one batch.
//
// A block has a group of 128 threads for each of BLOCK_TILES tiles and, with WGMMA, another group, of
// which one thread loads weights. The inputs of each layer and the gradients of its z, which
// weight_gradients.cu needs, are stored in global memory in float16, in blocks of 8 points x 8
// columns.
//
// The full waves, in which all blocks have tiles, are counted separately from the last one, during
// which weight_gradients.cu begins on multiprocessors that have no tiles.
//
// Gradients are those of the sum over the batch, times GRADIENT_SCALE, which keeps small ones out
// of float16's subnormal numbers.
//
// Constants: FULL_WAVES, LAST_BLOCKS (that have tiles in the last wave), and those of wide_pass.cuh.
#include "../dependent_launch.cuh"
#include "wide_pass.cuh"

// ---- layers --------------------------------------------------------------------------------

// z of a layer, in `sums` -> its values, for the next product. Its derivatives are kept in global
// memory.
template <int columns>
__device__ __forceinline__ void activate(const Tile& tile, int layer, const float* sums) {
    Derivatives<columns> derivatives = {};
    const float inverse_frequency = inverse_frequencies[layer];
    tile.clear();
    const float* rows[] = {tile.shared.constants.bias[layer]};
    for_constants<columns>(rows, [&](int column, const ConstantPairs (&biases)[1]) {
        uint32_t pairs[4];
        float2 z[4], value[4];
#pragma unroll
        for (int pair = 0; pair < 4; ++pair) {
            const float2 bias = biases[0].of[pair / 2];
            z[pair].x = sums[column / 2 + 2 * pair] + bias.x;
            z[pair].y = sums[column / 2 + 2 * pair + 1] + bias.y;
            value[pair] = activations(z[pair], inverse_frequency);
            pairs[pair] = pack_values(value[pair]);
        }
        tile.take<columns, true>(layer + 1, column, pairs);
        derivatives.keep(column, z, value, inverse_frequency);
        if (!derivatives.are_bits) derivatives.save(tile.kept(layer), column / 16);
    });
    if (derivatives.are_bits)
#pragma unroll
        for (int vector = 0; vector < derivatives.vectors; ++vector)
            derivatives.save(tile.kept(layer), vector);
    tile.show();
}

// Gradients of a layer's values, in `sums` -> gradients of its z, for the next product.
template <int columns>
__device__ __forceinline__ void differentiate(const Tile& tile, int layer,
                                              const Derivatives<columns>& derivatives,
                                              const float* sums) {
    const float inverse_frequency = inverse_frequencies[layer];
    tile.clear();
#pragma unroll
    for (int column = 0; column < columns; column += 16) {
        uint32_t pairs[4];
#pragma unroll
        for (int pair = 0; pair < 4; ++pair) {
            const float* sum = sums + column / 2 + 2 * pair;
            pairs[pair] = derivatives.times(column, pair, sum[0], sum[1], inverse_frequency);
        }
        tile.take<columns, false>(layer, column, pairs);
    }
    tile.show();
}

// Computes the layers from z of the first one to z of the last hidden one.
template <typename Sums>
__device__ __forceinline__ void forward(const Tile& tile, Sums& sums) {
#pragma unroll 1
    for (int layer = 1; layer < HIDDEN; ++layer) {
        for_kind_of<Width>(layer - 1, [&](auto kind) {
            constexpr int rows = width_after[kind.value];
            activate<rows>(tile, layer - 1, sums);
            tile.send<rows>(tile.shared.arguments.values[layer]);
        });
        for_kind_of<Shape>(layer, [&](auto kind) {
            constexpr int columns = width_after[kind.value];
            multiply<fan_in(kind.value), columns>(sums, tile.left(), tile.stream, tile.place);
            forget_sums<columns / 2>(sums);
        });
    }
}

// Computes the gradients of all layers' z, from the last hidden layer to the first.
template <typename Sums>
__device__ __forceinline__ void backward(const Tile& tile, Sums& sums) {
#pragma unroll 1
    for (int layer = HIDDEN - 1; layer >= 1; --layer)
        for_kind_of<Shape>(layer, [&](auto kind) {
            constexpr int rows = width_after[kind.value], columns = fan_in(kind.value);
            tile.send<rows>(tile.shared.arguments.gradients[layer]);
            // loaded during the product, if there are enough registers
            Derivatives<columns> derivatives;
            constexpr bool have_room = WGMMA || derivatives.words <= 32;
            if (have_room) derivatives.load(tile.kept(layer - 1));
            multiply<rows, columns>(sums, tile.left(), tile.stream, tile.place);
            if (!have_room) derivatives.load(tile.kept(layer - 1));
            differentiate(tile, layer - 1, derivatives, sums);
        });
}

// Stores the points of this thread as left operands.
__device__ __forceinline__ void store_points(const Tile& tile) {
    float high[2][3], low[2][3];
    split_points(high, low, tile.points);
    store_rows(tile.shared.left[tile.buffer.number][1], tile.buffer, high);
    store_rows(tile.shared.left[tile.buffer.number][2], tile.buffer, low);
}

// Gradients of the output numbers -> gradients of the last hidden layer's z, for the next product;
// the buffer has the values of the layer.
__device__ __forceinline__ void output_backward(const float (&gradients)[2][CHANNELS],
                                                const Tile& tile, const float* sums) {
    constexpr int columns = LAST_WIDTH;
    const int number = tile.buffer.number;
    store_rows(tile.shared.left[number][0], tile.buffer, gradients);
    tile.buffer.show();  // all warps read all rows
    add_vectors<columns, 1>(tile.buffer, tile.shared.left[number], tile.shared.vectors[number],
                            CHANNELS);
    tile.buffer.clear();
    const float* rows[CHANNELS];
#pragma unroll
    for (int channel = 0; channel < CHANNELS; ++channel)
        rows[channel] = tile.shared.constants.output_weight[channel];
    for_constants<columns>(rows, [&](int column, const ConstantPairs (&weights)[CHANNELS]) {
        uint32_t pairs[4];
        last_gradients(pairs, gradients, sums + column / 2, weights);
        tile.take<columns, false>(HIDDEN - 1, column, pairs);
    });
    tile.show();
}

// ---- the kernel ----------------------------------------------------------------------------

template <typename Sums>
__device__ __forceinline__ void work_on(const Tile& tile, Sums& sums, Totals& totals) {
    const Shared& shared = tile.shared;
    if constexpr (first_product == 0) {
        tile.clear();
        encode(tile.points, shared.constants, [&](int column, const uint32_t (&pairs)[4]) {
            tile.take<INPUT_WIDTH, true>(0, column, pairs);
        });
        tile.show();
        tile.send<INPUT_WIDTH>(shared.arguments.values[0]);
        multiply<INPUT_WIDTH, width_after[0]>(sums, tile.left(), tile.stream, tile.place);
    } else {
        place_coordinates(tile.buffer, sums, tile.points, shared.constants);
    }
    forget_sums<width_after[0] / 2>(sums);
    if constexpr (HIDDEN > 1) forward(tile, sums);
    float z[2][CHANNELS];
    output_layer<true>(z, tile.buffer, sums, shared.constants);
    float2 errors = loss_of_points(z, tile);
    totals.loss += errors.x;
    totals.squared_error += errors.y;
    if (tile.buffer.lane % 4 == 0)
#pragma unroll
        for (int channel = 0; channel < CHANNELS; ++channel)
            totals.output_bias[channel] += z[0][channel] + z[1][channel];
    if constexpr (first_product == 1) store_points(tile);
    output_backward(z, tile, sums);
    if constexpr (HIDDEN > 1) backward(tile, sums);
    if constexpr (first_product == 0) {
        tile.send<width_after[0]>(shared.arguments.gradients[0]);
    } else {
        if (IN_REGISTERS) tile.buffer.sync();
        add_vectors<width_after[0], 2>(tile.buffer, tile.shared.left[tile.buffer.number] + 1,
                                       tile.shared.vectors[tile.buffer.number] + CHANNELS,
                                       COORDINATE_VECTORS);
    }
}

// Sets up the shared memory that does not depend on earlier kernels.
__device__ __forceinline__ Shared& begin(char* tiles, const Arguments* given) {
    Shared& shared = *reinterpret_cast<Shared*>(tiles + BLOCK_TILES * TILE_BYTES);
    if (threadIdx.x == 0) shared.arguments = *given;
    float* vectors = &shared.vectors[0][0][0];
    for (int i = threadIdx.x; i < BLOCK_TILES * VECTORS * WIDEST; i += blockDim.x)
        vectors[i] = 0.0f;
    __half* left = &shared.left[0][0][0][0];
    for (int i = threadIdx.x; i < BLOCK_TILES * 3 * 8 * ROWS_PITCH; i += blockDim.x)
        left[i] = __half(0.0f);
    return shared;
}

extern "C" __global__ void __launch_bounds__(CONSUMERS + LOADERS, 1)
    wide_pass(const Arguments* given) {
    extern __shared__ __align__(128) char memory[];
    char* tiles = memory + STAGES * STAGE_BYTES;
    Shared& shared = begin(tiles, given);
    const Stream stream = {memory, given->weights, shared.filled, shared.emptied};
    if (threadIdx.x == 0) init_stream(stream);
    wait_for_earlier_kernels();
    __syncthreads();
    const Arguments& arguments = shared.arguments;
    const int waves = FULL_WAVES + (blockIdx.x < LAST_BLOCKS);
    StreamPlace place;
    if (!begin_stream(stream, place, waves)) return;
    load_constants(shared.constants, arguments.parameters, arguments.frequencies, arguments.offsets,
                   CONSUMERS);
    named_sync<CONSUMERS>(ALL_CONSUMERS);
    const int number = threadIdx.x / 128;
    const TileBuffer buffer = {tiles + number * TILE_BYTES, number, int(threadIdx.x) / 32 % 4,
                               int(threadIdx.x) % 32};
    uint4* derivatives = arguments.derivatives +
                         size_t(blockIdx.x) * HIDDEN * (WIDEST / 16) * CONSUMERS + threadIdx.x;
    Totals totals;
    float sums[WIDEST / 2];
    uint32_t operand[IN_REGISTERS ? WIDEST / 4 : 1];
    for (int wave = 0; wave < waves; ++wave) {
        const int index = (wave * BLOCK_TILES + number) * gridDim.x + blockIdx.x;
        if (index < TILES) {
            Tile tile = {{index}, buffer, shared, stream, place, derivatives, operand};
            tile.fetch(arguments, buffer);
            work_on(tile, sums, totals);
        } else {
            skip_weights(stream, place);
        }
        if (wave >= FULL_WAVES - 1 && buffer.is_first())
            count_stored(wave < FULL_WAVES ? &arguments.counters->full : &arguments.counters->last);
    }
    store_totals(shared, totals, threadIdx.x / 32);
    end_stream();
    named_sync<CONSUMERS>(ALL_CONSUMERS);
    write_partials(shared);
}
