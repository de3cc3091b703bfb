// Fused forward pass, loss and backward pass of one batch, with the gradients of all weights, for
// networks so narrow that no intermediate values have to go to global memory.
//
// A block has BLOCK_TILES warpgroups, each with a tile of 64 points. The sums of a product become
// the left operand of the next product in the registers of the same thread; values that the
// weights' gradients need are also stored in shared memory. The product for the gradient of a
// layer's weights runs while the gradients of values are propagated to the layer before.
//
// Gradients are those of the sum over the batch, times GRADIENT_SCALE, which keeps small ones out
// of float16's subnormal numbers.
//
// Constants: SHARED_BYTES, which the host reserves beside weights and buffers, and those of
// narrow_pass.cuh.
#include "narrow_pass.cuh"

static_assert(sizeof(Shared) <= SHARED_BYTES, "the host has to count more");

// Waits for z of a layer in `sums`, and computes its values, as the next product's operand. Calls
// `put` for every 16 columns, with their values and the numbers to keep for the backward pass: the
// derivatives, or the values again if derivatives follow from these.
template <int columns, typename Put>
__device__ __forceinline__ void activate(int layer, float* sums, uint32_t* operand,
                                         const Put& put) {
    wait_for_products<0>();
    finished_sums<columns / 2>(sums);
    const float inverse_frequency = inverse_frequencies[layer];
#pragma unroll
    for (int column = 0; column < columns; column += 16) {
        uint32_t pairs[4], kept[4];
#pragma unroll
        for (int pair = 0; pair < 4; ++pair) {
            const float low = sums[column / 2 + 2 * pair], high = sums[column / 2 + 2 * pair + 1];
            const float2 z = make_float2(low, high), value = activations(z, inverse_frequency);
            kept[pair] = pairs[pair] = pack_values(value);
            operand[column / 4 + pair] = pairs[pair];
            if (KEEPS_DERIVATIVES)
                kept[pair] = pack_derivatives(derivatives(z, value, inverse_frequency));
        }
        put(column, pairs, kept);
    }
}

// Stores 16 columns of a layer, which is not the last hidden one, in their buffers.
template <int columns>
__device__ __forceinline__ void put_columns(const Tile& tile, int layer, int column,
                                            const uint32_t (&pairs)[4], const uint32_t (&kept)[4]) {
    tile.values(layer + 1).template put<columns>(column, pairs);
    if (KEEPS_DERIVATIVES)
        *tile.kept<columns>(layer, column) = make_uint4(kept[0], kept[1], kept[2], kept[3]);
}

// Gradients of a layer's values, in `sums` -> gradients of its z. `load` loads the kept numbers.
template <int columns, typename Load>
__device__ __forceinline__ void differentiate(const float* sums, uint32_t* operand,
                                              const Load& load) {
#pragma unroll
    for (int column = 0; column < columns; column += 16) {
        uint32_t kept[4];
        load(column, kept);
#pragma unroll
        for (int pair = 0; pair < 4; ++pair) {
            const float* sum = sums + column / 2 + 2 * pair;
            uint32_t& gradient = operand[column / 4 + pair];
            if (ACTIVATION == RELU) {
                const __half2 value = *reinterpret_cast<const __half2*>(&kept[pair]);
                gradient =
                    pack_saturated(sum[0], sum[1]) & __hgt2_mask(value, __float2half2_rn(0.0f));
            } else {
                float2 factor = unpack(kept[pair]);
                if (!KEEPS_DERIVATIVES)  // derivatives follow from the values alone
                    factor = derivatives(factor, factor, 1.0f);
                gradient = pack_saturated(sum[0] * factor.x, sum[1] * factor.y);
            }
        }
    }
}

template <int layer>
__device__ __forceinline__ void activate_and_put(const Tile& tile, float* sums, uint32_t* operand) {
    constexpr int columns = width_after[layer];
    activate<columns>(layer, sums, operand, [&](int column, const auto& pairs, const auto& kept) {
        put_columns<columns>(tile, layer, column, pairs, kept);
    });
}

// Computes the layers from the values of the first one, of which `operand` has this thread's, to z
// of the last hidden one, whose product to `sums` may still run at the end.
template <int layer = 1>
__device__ __forceinline__ void forward(const Tile& tile, float* sums, uint32_t* operand) {
    if constexpr (layer < HIDDEN) {
        constexpr int rows = fan_in(layer), columns = width_after[layer];
        start_forward<rows, columns>(sums, operand, tile.matrix(layer), tile.affine(layer));
        if constexpr (layer + 1 < HIDDEN) activate_and_put<layer>(tile, sums, operand);
        forward<layer + 1>(tile, sums, operand);
    }
}

// Starts the products for the gradients of a layer's parameters, from z's gradients in a buffer.
template <int layer>
__device__ __forceinline__ void start_gradients(Gradients& gradients, const Tile& tile,
                                                const TileBuffer& z_gradients) {
    constexpr int columns = width_after[layer];
    z_gradients.show();
    begin_products();
    if constexpr (layer == HIDDEN - 1) {
        start_sums<columns>(gradients.output, tile.buffer,
                            tile.shared.stored[z_gradients.number][0]);
        commit_products();  // a group of its own, to end before gradients go to the buffer
    }
    if constexpr (layer >= first_product) {
        start_sums<columns>(gradients.biases[layer], z_gradients, tile.shared.ones, 0);
        start_gradient<layer>(gradients.weights_of<layer>(), tile.values(layer), z_gradients);
    } else {
        start_sums<columns>(gradients.coordinates, z_gradients,
                            tile.shared.stored[z_gradients.number][0]);
    }
    commit_products();
}

// Computes, from the gradients of a layer's z, those of its parameters and of all layers before.
template <int layer = HIDDEN - 1>
__device__ __forceinline__ void backward(const Tile& tile, float* sums, uint32_t* operand,
                                         Gradients& gradients) {
    constexpr int rows = fan_in(layer), columns = width_after[layer];
    const TileBuffer z_gradients = tile.z_gradients<layer>();
    if constexpr (layer > 0 || ENCODING == HASHGRID)
        start_backward<rows, columns>(sums, operand, tile.matrix(layer));
    put_operand<columns>(z_gradients, operand);
    if constexpr (layer == 0) tile.fetch_next();
    start_gradients<layer>(gradients, tile, z_gradients);
    if constexpr (layer > 0) {
        wait_for_products<1>();  // the product for the gradients of parameters goes on
        finished_sums<rows / 2>(sums);
        differentiate<rows>(sums, operand, [&](int column, uint32_t (&kept)[4]) {
            if (KEEPS_DERIVATIVES) {
                const uint4 four = *tile.kept<rows>(layer - 1, column);
                kept[0] = four.x, kept[1] = four.y, kept[2] = four.z, kept[3] = four.w;
            } else {
                load_operand<rows>(kept, tile.values(layer), column);
            }
        });
        backward<layer - 1>(tile, sums, operand, gradients);
    } else if constexpr (ENCODING == HASHGRID) {
        wait_for_products<1>();
        finished_sums<rows / 2>(sums);
        // loaded once, because the compiler cannot exclude that the stores below change it
        uint32_t* const of_features = tile.shared.arguments.feature_gradients;
#pragma unroll
        for (int i = 0; i < rows / 4; ++i)
            of_features[tile.feature_place(tile.index, tile.buffer, i)] =
                pack_saturated(sums[2 * i], sums[2 * i + 1]);
    }
}

__device__ __forceinline__ void work_on(const Tile& tile, Gradients& gradients) {
    float sums[WIDEST / 2];
    uint32_t operand[WIDEST / 4];
    if constexpr (ENCODING == HASHGRID) {
#pragma unroll
        for (int i = 0; i < INPUT_WIDTH / 4; ++i) operand[i] = tile.features[i];
    } else if constexpr (first_product == 0) {
#pragma unroll
        for (int column = 0; column < INPUT_WIDTH; column += 16) {
            uint32_t pairs[4];
            fourier_features(pairs, column, tile.points, tile.shared.constants);
#pragma unroll
            for (int pair = 0; pair < 4; ++pair) operand[column / 4 + pair] = pairs[pair];
        }
    }
    if constexpr (first_product == 0) {
        start_forward<INPUT_WIDTH, width_after[0]>(sums, operand, tile.matrix(0), tile.affine(0));
    } else {
        start_first<width_after[0]>(sums, tile.points, tile.affine(0));
    }
    wait_for_products<1>();
    tile.buffer.sync();  // all threads have finished with the buffers of the tile before
    if constexpr (first_product == 0) put_operand<INPUT_WIDTH>(tile.values(0), operand);
    if constexpr (HIDDEN > 1) activate_and_put<0>(tile, sums, operand);
    forward(tile, sums, operand);
    uint32_t kept[LAST_WIDTH / 4];
    activate<LAST_WIDTH>(HIDDEN - 1, sums, operand,
                         [&](int column, const auto& pairs, const auto& four) {
                             tile.buffer.put<LAST_WIDTH>(column, pairs);
#pragma unroll
                             for (int i = 0; i < 4; ++i) kept[column / 4 + i] = four[i];
                         });
    float outputs[4], z[2][1];
    start_output(outputs, operand, tile.output_matrix());
    const float bias = tile.shared.constants.output_bias[own_channel() % CHANNELS];
    wait_for_products<0>();
    finished_sums<4>(outputs);
#pragma unroll
    for (int i = 0; i < 2; ++i) z[i][0] = (outputs[2 * i] + outputs[2 * i + 1]) + bias;
    const float2 errors = loss_of_points(z, tile);
    start_last_gradients(sums, z, tile.output_matrix());
    gradients.totals.error += sum_channels(errors);
    gradients.totals.output_bias += z[0][0] + z[1][0];
    store_gradients(tile.shared.stored[tile.buffer.number], tile.buffer, z, tile.points);
    wait_for_products<0>();
    finished_sums<LAST_WIDTH / 2>(sums);
    differentiate<LAST_WIDTH>(sums, operand, [&](int column, uint32_t (&four)[4]) {
#pragma unroll
        for (int i = 0; i < 4; ++i) four[i] = kept[column / 4 + i];
    });
    backward(tile, sums, operand, gradients);
}

// Returns the struct Shared, which lies behind the buffers.
__device__ __forceinline__ Shared& shared_of(char* memory) {
    return *reinterpret_cast<Shared*>(memory + WEIGHTS_BYTES + BLOCK_TILES * BUFFERS * TILE_BYTES);
}

// Sets up the shared memory that all warpgroups of a block need and that no step changes.
__device__ __forceinline__ Shared& begin(char* memory, const Arguments* given) {
    Shared& shared = shared_of(memory);
    if (threadIdx.x == 0) {
        shared.arguments = *given;
        barrier_init(&shared.weights_here, HIDDEN - first_product);
        barrier_init_fence();
    }
    const uint32_t two_ones = 0x3C003C00;
    if (threadIdx.x < 16)
        shared.ones[threadIdx.x] = make_uint4(two_ones, two_ones, two_ones, two_ones);
    fence_shared();
    __syncthreads();
    return shared;
}

// Loads the rest: weights and constants.
__device__ __forceinline__ void load_parameters(char* memory, Shared& shared) {
    const Arguments& arguments = shared.arguments;
    const char* source = arguments.weights;
    for (int matrix = 0; matrix < HIDDEN - first_product; ++matrix) {
        const int bytes = stream_of_chunks.bytes[matrix];
        start_block_copy<WEIGHT_BYTES, CONSUMERS>(memory + matrix * WEIGHT_BYTES, source, bytes,
                                                  &shared.weights_here);
        source += bytes;
    }
    load_constants(shared.constants, arguments.parameters, arguments.frequencies, arguments.offsets,
                   blockDim.x);
    __syncthreads();
    put_affine(shared);
    put_output(shared.output, shared.constants);
    fence_shared();
    wait_for_block_copies(&shared.weights_here);
    __syncthreads();
}

// The number of this thread's warpgroup; by the shuffle, the compiler knows that all lanes agree.
__device__ __forceinline__ int own_warpgroup() { return __shfl_sync(~0u, threadIdx.x / 128, 0); }

__device__ __forceinline__ TileBuffer buffer_of(char* own_buffers, int warpgroup) {
    return {own_buffers + LAST_VALUES * TILE_BYTES, warpgroup, int(threadIdx.x) / 32 % 4,
            int(threadIdx.x) % 32};
}

extern "C" __global__ void __launch_bounds__(CONSUMERS, 1) narrow_pass(const Arguments* given) {
    extern __shared__ __align__(128) char memory[];
    Shared& shared = begin(memory, given);
    load_parameters(memory, shared);
    const Arguments& arguments = shared.arguments;
    char* buffers = memory + WEIGHTS_BYTES;
    const int warpgroup = own_warpgroup();
    char* own_buffers = buffers + warpgroup * BUFFERS * TILE_BYTES;
    const TileBuffer buffer = buffer_of(own_buffers, warpgroup);
    Gradients gradients;
    // an incomplete last wave is spread over the blocks
    PointsOf<true> next = {warpgroup * int(gridDim.x) + int(blockIdx.x)};
    if (next.index < TILES) next.fetch(arguments, buffer);
    while (next.index < TILES) {
        Tile tile = {next, own_buffers, memory, shared, buffer, next};
        next.index += BLOCK_TILES * gridDim.x;
        work_on(tile, gradients);
    }
    wait_for_products<0>();
    gradients.finish();
    store_totals(shared, gradients.totals, threadIdx.x / 32);
    named_sync<CONSUMERS>(ALL_CONSUMERS);  // all have finished reading `stored`
    float (*own_vectors)[WIDEST] = shared.vectors[warpgroup];
    for (int i = threadIdx.x % 128; i < VECTORS * WIDEST; i += 128) own_vectors[0][i] = 0.0f;
    buffer.sync();
    const auto put = [&](int vector, int column, float sum) { own_vectors[vector][column] = sum; };
    for_sums<LAST_WIDTH, CHANNELS>(gradients.output, buffer, 0, put);
    float* coordinates = gradients.coordinates;
#pragma unroll
    for (int i = 0; i < 4; ++i) coordinates[i] += coordinates[4 + i];  // their rounding errors
    for_sums<width_after[0], COORDINATE_VECTORS>(coordinates + 1, buffer, CHANNELS, put);
    write_gradients(gradients, shared, reinterpret_cast<float*>(buffers), warpgroup);
    write_partials(shared);
}
