// Forward, loss and backward of one batch, fused, and the gradients of all weights, for networks
// so narrow that nothing has to go to global memory in between; twin: kernels/layers.py.
//
// Blocks of BLOCK_TILES warpgroups, each with a tile of 64 points. Values go from one product's sums
// to the next one's left operand within a thread; what the weights' gradients need of them is also
// laid down in shared memory. The product for a gradient is under way while slopes go on to the
// layer before.
//
// Slopes are those of the sum over the batch, times GRADIENT_SCALE, which keeps small ones out of
// float16's subnormal numbers.
//
// Constants: SHARED_BYTES, which the host counts on beside weights and tables, and those of
// hopper_narrow.cuh.
#include "hopper_narrow.cuh"
#include "hopper_derivatives.cuh"

static_assert(sizeof(Shared) <= SHARED_BYTES, "the host has to count more");

// z of a layer, in `sums` -> its values, for the next product and on the next layer's table.
template <int columns>
__device__ __forceinline__ void activate(const Tile& tile, int layer, const float* sums,
                                         uint32_t* operand) {
    const Table table = tile.values(layer + 1);
#pragma unroll
    for (int column = 0; column < columns; column += 16) {
        uint32_t pairs[4], kept[4];
#pragma unroll
        for (int pair = 0; pair < 4; ++pair) {
            float2 bias =
                pair_at(tile.shared.constants.bias[layer], column + 8 * (pair / 2) + own_column());
            float low = sums[column / 2 + 2 * pair] + bias.x;
            float high = sums[column / 2 + 2 * pair + 1] + bias.y;
            pairs[pair] = pack_values(activation<ACTIVATION>(low), activation<ACTIVATION>(high));
            operand[column / 4 + pair] = pairs[pair];
            if (ACTIVATION == SINE) kept[pair] = pack(__cosf(low), __cosf(high));
        }
        table.put<columns>(column, pairs);
        if (ACTIVATION == SINE)
            tile.kept(layer)[column / 16 * 128] = make_uint4(kept[0], kept[1], kept[2], kept[3]);
    }
}

// Slopes of a layer's values, in `sums` -> slopes of its z.
template <int layer>
__device__ __forceinline__ void differentiate(const Tile& tile, const float* sums,
                                              uint32_t* operand) {
    constexpr int columns = width_after[layer];
    uint32_t kept[columns / 4];
    if (ACTIVATION == SINE) {
#pragma unroll
        for (int vector = 0; vector < columns / 16; ++vector) {
            uint4 four = tile.kept(layer)[vector * 128];
            kept[4 * vector] = four.x;
            kept[4 * vector + 1] = four.y;
            kept[4 * vector + 2] = four.z;
            kept[4 * vector + 3] = four.w;
        }
    } else {
        load_operand<columns>(kept, tile.values(layer + 1));
    }
#pragma unroll
    for (int i = 0; i < columns / 4; ++i) {
        if (ACTIVATION == RELU) {
            __half2 values = *reinterpret_cast<__half2*>(&kept[i]);
            operand[i] = pack_saturated(sums[2 * i], sums[2 * i + 1]) &
                         __hgt2_mask(values, __half2half2(__half(0.0f)));
        } else {
            float2 factor = unpack(kept[i]);
            if (ACTIVATION != SINE)
                factor = {derivative<ACTIVATION>(factor.x, factor.x),
                          derivative<ACTIVATION>(factor.y, factor.y)};
            operand[i] = pack_saturated(sums[2 * i] * factor.x, sums[2 * i + 1] * factor.y);
        }
    }
}

// From z of the first layer to z of the last hidden layer.
__device__ __forceinline__ void forward(const Tile& tile, float* sums, uint32_t* operand) {
#pragma unroll 1
    for (int layer = 1; layer < HIDDEN; ++layer) {
        for_width_of(layer - 1, [&](auto kind) {
            activate<width_after[kind.value]>(tile, layer - 1, sums, operand);
        });
        for_shape_of(layer, [&](auto kind) {
            constexpr int columns = width_after[kind.value];
            start_forward<fan_in(kind.value), columns>(sums, operand, tile.weight(layer));
            wgmma_wait<0>();
            finished_sums<columns / 2>(sums);
            forget_sums<columns / 2>(sums);
        });
    }
}

// From slopes of a layer's z to the gradients of its parameters and of those before.
template <int layer = HIDDEN - 1>
__device__ __forceinline__ void backward(const Tile& tile, float* sums, uint32_t* operand,
                                         Gradients& gradients) {
    constexpr int rows = fan_in(layer), columns = width_after[layer];
    const Table slopes = tile.slopes<layer>();
    if constexpr (layer > 0) start_backward<rows, columns>(sums, operand, tile.weight(layer));
    if constexpr (layer < HIDDEN - 1) {
#pragma unroll
        for (int column = 0; column < columns; column += 16) {
            const uint32_t* own = operand + column / 4;
            slopes.put<columns>(column, {own[0], own[1], own[2], own[3]});
        }
        slopes.show();
    }
    if constexpr (layer >= first_product) {
        start_gradient<layer>(gradients, tile.values(layer), slopes);
        constexpr int biases = bias_sums_before(layer);
        add_column_sums<columns>(gradients.biases + biases, shared_address(slopes.tile));
    } else {
        add_vectors<columns, 2>(slopes, tile.shared.left[slopes.number] + 1,
                                tile.shared.vectors[slopes.number] + CHANNELS, COORDINATE_VECTORS);
    }
    if constexpr (layer > 0) {
        wgmma_wait<1>();
        finished_sums<rows / 2>(sums);
        differentiate<layer - 1>(tile, sums, operand);
        backward<layer - 1>(tile, sums, operand, gradients);
    }
}

__device__ __forceinline__ void work_on(const Tile& tile, Gradients& gradients, Totals& totals) {
    float sums[WIDEST / 2];
    uint32_t operand[WIDEST / 4];
    if constexpr (first_product == 0) {
        encode(tile.values(0), tile.points, tile.shared.constants);
        load_operand<INPUT_WIDTH>(operand, tile.values(0));
        start_forward<INPUT_WIDTH, width_after[0]>(sums, operand, tile.weight(0));
        wgmma_wait<0>();
        finished_sums<width_after[0] / 2>(sums);
    } else {
        tile.table.sync();  // all have done with the tile before
        place_coordinates(tile.table, sums, tile.points, tile.shared.constants);
    }
    if constexpr (HIDDEN > 1) forward(tile, sums, operand);
    float z[2][CHANNELS];
    output_layer<true>(z, tile.table, sums, tile.shared.constants);
    float2 errors = loss_of_points(z, tile);
    totals.loss += errors.x;
    totals.squared_error += errors.y;
    if (tile.table.lane % 4 == 0)
#pragma unroll
        for (int channel = 0; channel < CHANNELS; ++channel)
            totals.output_bias[channel] += z[0][channel] + z[1][channel];
    if constexpr (first_product == 1) note_points(tile);
    output_backward(z, tile, sums);
    load_operand<LAST_WIDTH>(operand, tile.table);
    backward(tile, sums, operand, gradients);
    wgmma_wait<0>();
    finished_sums<weight_sums_before(HIDDEN)>(gradients.weights);
}

extern "C" __global__ void __launch_bounds__(CONSUMERS, 1) hopper_narrow(const Arguments* given) {
    extern __shared__ __align__(128) char memory[];
    char* tables = memory + WEIGHTS_BYTES;
    Shared& shared = *reinterpret_cast<Shared*>(tables + BLOCK_TILES * TABLES * TILE_BYTES);
    if (threadIdx.x == 0) {
        shared.arguments = *given;
        barrier_init(&shared.weights_here, 1);
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
    if (threadIdx.x == 0) {
        const char* source = arguments.weights;
        constexpr int bytes_of_all = stream_bytes();
        barrier_expect_bytes(&shared.weights_here, bytes_of_all);
        for (int matrix = 0; matrix < HIDDEN - first_product; ++matrix) {
            int bytes = stream_of_chunks.bytes[matrix];
            bulk_copy(memory + matrix * WEIGHT_BYTES, source, bytes, &shared.weights_here);
            source += bytes;
        }
    }
    load_constants(shared.constants, arguments.parameters, arguments.frequencies,
                   arguments.offsets);
    __syncthreads();
    barrier_wait(&shared.weights_here, 0);

    const int number = threadIdx.x / 128, warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
    char* own_tables = tables + number * TABLES * TILE_BYTES;
    const Table table = {own_tables + LAST_VALUES * TILE_BYTES, number, warp, lane};
    Totals totals;
    Gradients gradients;
    // an incomplete last round is spread over the blocks
    for (int index = number * gridDim.x + blockIdx.x; index < TILES;
         index += BLOCK_TILES * gridDim.x) {
        Tile tile = {{index}, own_tables, memory, shared, table};
        tile.fetch(arguments, table);
        work_on(tile, gradients, totals);
    }
    note_totals(shared, totals);
    write_gradients(gradients, shared, reinterpret_cast<float*>(tables), number);
    write_partials(shared);
}
