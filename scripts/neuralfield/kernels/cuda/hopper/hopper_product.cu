// Forward, loss and backward of one batch, fused, and the gradients of all weights, for a product
// of linear maps of Fourier and Chebyshev features with a relu layer behind it; twin:
// kernels/layers.py.
//
// Weights stay in shared memory, and so do a tile's features, factors, products and values. The
// sums of the first weight's gradient stay in registers over all tiles of a block, those of the
// others in shared memory, where each thread has places of its own.
//
// Slopes are those of the sum over the batch, times GRADIENT_SCALE, which keeps small ones out of
// float16's subnormal numbers.
//
// Constants: those of hopper_product.cuh.
#include "hopper_product_features.cuh"
#include "hopper_product_tile.cuh"

static_assert(THE_REST + sizeof(ProductShared) <= SHARED_BYTES, "the host has to count more");

__device__ __forceinline__ void sync_block() { named_sync<CONSUMERS>(ALL_CONSUMERS); }

// Weights in float16, as blocks of 8 x 8, with zeros beyond their sizes; and all other constants.
__device__ __forceinline__ void load_weights(char* memory, ProductShared& shared) {
    const ProductArguments& arguments = shared.arguments;
    const float* parameters = arguments.parameters;
    const float* first = parameters + arguments.offsets.weight[0];
    __half* packed = reinterpret_cast<__half*>(memory + FIRST_WEIGHT);
#pragma unroll 24  // so that many loads are on their way at once
    for (int i = threadIdx.x; i < INPUT_WIDTH * ALL_FACTORS; i += CONSUMERS) {
        const int row = i / ALL_FACTORS, factor = i / PADDED % FACTORS, column = i % PADDED;
        const int from = factor * WIDTH + column;
        const bool there = row < FEATURES && row != CONSTANT + 1 && column < WIDTH;
        float weight = there ? first[row * FACTORS * WIDTH + from] : 0.0f;
        if (row == CONSTANT && column < WIDTH) {
            if (CONSTANT < FEATURES) weight += first[(row + 1) * FACTORS * WIDTH + from];
            if (arguments.offsets.bias[0] >= 0)
                weight += parameters[arguments.offsets.bias[0] + from];
        }
        const int place = (column / OWN * UNITS + column % OWN / UNIT) * FACTORS * UNIT +
                          factor * UNIT + column % UNIT;
        packed[place_in_blocks(row, place, ALL_FACTORS)] = __float2half_rn(weight);
    }
    const float* second = parameters + arguments.offsets.weight[1];
    packed = reinterpret_cast<__half*>(memory + SECOND_WEIGHT);
#pragma unroll 12
    for (int i = threadIdx.x; i < PADDED * PADDED; i += CONSUMERS) {
        const int row = i / PADDED, column = i % PADDED;
        const bool there = row < WIDTH && column < WIDTH;
        const float weight = there ? second[row * WIDTH + column] : 0.0f;
        packed[place_in_blocks(row, column, PADDED)] = __float2half_rn(weight);
    }
    float* sums = reinterpret_cast<float*>(memory + SECOND_SUMS);
    for (int i = threadIdx.x; i < PADDED * PADDED; i += CONSUMERS) sums[i] = 0.0f;
    for (int i = threadIdx.x; i < INPUT_WIDTH; i += CONSUMERS) {
        const int wave = i < FOURIER_COUNT ? i : i - FOURIER_COUNT;
        for (int axis = 0; axis < 2; ++axis)
            shared.turns[axis][i] =
                wave < FOURIER_COUNT ? arguments.frequencies[axis * FOURIER_COUNT + wave] : 0.0f;
    }
    const Offsets& at = arguments.offsets;
    for (int i = threadIdx.x; i < PADDED; i += CONSUMERS) {
        const bool there = i < WIDTH;
        shared.second_bias[i] = there && at.bias[1] >= 0 ? parameters[at.bias[1] + i] : 0.0f;
        shared.second_bias_sums[i] = 0.0f;
        for (int channel = 0; channel < CHANNELS; ++channel) {
            shared.output_weight[channel][i] =
                there ? parameters[at.weight[2] + i * CHANNELS + channel] : 0.0f;
            shared.output_weight_sums[i][channel] = 0.0f;
        }
    }
    if (threadIdx.x < CHANNELS)
        shared.output_bias[threadIdx.x] =
            at.bias[2] >= 0 ? parameters[at.bias[2] + threadIdx.x] : 0.0f;
    const uint32_t two_ones = 0x3C003C00;
    if (threadIdx.x < 16)
        shared.ones[threadIdx.x] = make_uint4(two_ones, two_ones, two_ones, two_ones);
}

// The block's parts of all gradients.
__device__ __forceinline__ void write_parts(const FirstGradient& gradient, char* memory,
                                            const Table& table, const ProductShared& shared) {
    const ProductArguments& arguments = shared.arguments;
    const size_t block = blockIdx.x;
    float* first = arguments.first_weight + block * FEATURES * ALL_FACTORS;
    float* bias = arguments.first_bias + block * ALL_FACTORS;
#pragma unroll
    for (int chunk = 0; chunk < INPUT_WIDTH / 64; ++chunk)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int row = row_of(table, chunk, i);
            if (row >= FEATURES && row != CONSTANT) continue;
#pragma unroll
            for (int j = 0; j < OWN_FACTORS / 8; ++j) {
                const int place = factor_of(8 * j) * PADDED + table.number * OWN +
                                  own_place(8 * j) + own_column();
                const float2 sums = make_float2(gradient.sums[chunk][4 * j + 2 * i],
                                                gradient.sums[chunk][4 * j + 2 * i + 1]);
                if (row < FEATURES)
                    *reinterpret_cast<float2*>(first + row * ALL_FACTORS + place) = sums;
                if (row == CONSTANT) *reinterpret_cast<float2*>(bias + place) = sums;
            }
        }
    float* second = arguments.second_weight + block * PADDED * PADDED;
#pragma unroll
    for (int chunk = 0; chunk < blocks_of(PADDED); ++chunk) {
        if (CHUNK_ROWS * chunk + 16 * table.warp >= PADDED) continue;
        const float4* place = second_place(memory, table, chunk);
#pragma unroll
        for (int j = 0; j < OWN / 8; ++j) {
            const float4 sum = place[j * SECOND_STEP];
            float* own = second + row_of(table, chunk, 0) * PADDED + table.number * OWN + 8 * j +
                         own_column();
            *reinterpret_cast<float2*>(own) = make_float2(sum.x, sum.y);
            *reinterpret_cast<float2*>(own + 8 * PADDED) = make_float2(sum.z, sum.w);
        }
    }
    for (int i = threadIdx.x; i < PADDED; i += CONSUMERS)
        arguments.second_bias[block * PADDED + i] = shared.second_bias_sums[i];
    for (int i = threadIdx.x; i < PADDED * CHANNELS; i += CONSUMERS)
        arguments.output_weight[block * PADDED * CHANNELS + i] =
            (&shared.output_weight_sums[0][0])[i];
    if (threadIdx.x < CHANNELS) {
        float sum = 0.0f;
        for (int warp = 0; warp < 4; ++warp) sum += shared.output_bias_sums[warp][threadIdx.x];
        arguments.output_bias[block * CHANNELS + threadIdx.x] = sum;
    }
    if (threadIdx.x == 0) {
        double loss = 0.0, squared_error = 0.0;
        for (int warp = 0; warp < 4; ++warp) {
            loss += shared.losses[warp][0];
            squared_error += shared.losses[warp][1];
        }
        const double count = double(PIXELS) * CHANNELS;
        arguments.loss_partials[block] = make_double2(loss / count, squared_error / count);
    }
}

extern "C" __global__ void __launch_bounds__(CONSUMERS, 1)
    hopper_product(const ProductArguments* given) {
    extern __shared__ __align__(128) char memory[];
    ProductShared& shared = *reinterpret_cast<ProductShared*>(memory + THE_REST);
    if (threadIdx.x == 0) shared.arguments = *given;
    __syncthreads();
    load_weights(memory, shared);
    const ProductArguments& arguments = shared.arguments;
    const int warpgroup = __shfl_sync(~0u, threadIdx.x / 128, 0);
    auto table_at = [&](int place) {
        return Table{memory + place, warpgroup, int(threadIdx.x) / 32 % 4, int(threadIdx.x) % 32};
    };
    const Table factors = table_at(FACTOR_TABLES + warpgroup * FACTORS_BYTES);
    const Table products = table_at(PRODUCTS), values = table_at(RELUS);
    const uint32_t first_weight = shared_address(memory + FIRST_WEIGHT);
    const uint32_t second_weight = shared_address(memory + SECOND_WEIGHT);
    Totals totals;
    FirstGradient first_gradient;
    Points next = {int(blockIdx.x)};
    next.fetch(arguments, values);
    __syncthreads();
    put_features(table_at(FEATURE_TABLES), next.points, shared, warpgroup);
    for (int round = 0; next.index < TILES; ++round) {
        const Table features = table_at(FEATURE_TABLES + round % 2 * FEATURES_BYTES);
        const Table next_features = table_at(FEATURE_TABLES + (round + 1) % 2 * FEATURES_BYTES);
        Notes& notes = *reinterpret_cast<Notes*>(next_features.tile);
        shared_written();
        sync_block();  // features are there, and all have done with the tile before
        make_products(shared_address(features.tile), first_weight, factors, products, shared);
        shared_written();
        sync_block();
        float z[2][CHANNELS];
        uint32_t pairs[OWN / 4];
        make_values(pairs, z, products, values, second_weight, shared);
        note_shares(z, values, notes);
        shared_written();
        sync_block();
        add_shares(z, values, notes, shared.output_bias);
        {
            const ProductTile tile = {next, values, notes};
            const float2 errors = loss_of_points(z, tile);
            if (warpgroup == 0) {
                totals.loss += errors.x;
                totals.squared_error += errors.y;
                if (values.lane % 4 == 0)
#pragma unroll
                    for (int channel = 0; channel < CHANNELS; ++channel)
                        totals.output_bias[channel] += z[0][channel] + z[1][channel];
            }
        }
        next.index += gridDim.x;
        if (next.index < TILES) next.fetch(arguments, values);
        note_numbers(notes.slopes[warpgroup], values, z);
        values.show();
        put_slopes(pairs, z, values, notes.slopes[warpgroup], shared);
        shared_written();
        sync_block();
        put_slopes_of_factors(values, factors, second_weight);
        factors.show();
        SecondGradient second_gradient;
        wgmma_fence();
        start_second_gradient(second_gradient, products, values, shared.ones);
        wgmma_commit();
        start_first_gradient(first_gradient, shared_address(features.tile), factors);
        wgmma_commit();
        wgmma_wait<1>();
        add_second_gradient(second_gradient, memory, values, shared);
        if (next.index < TILES) put_features(next_features, next.points, shared, warpgroup);
        wgmma_wait<0>();
    }
    wgmma_wait<0>();
    finished_sums<INPUT_WIDTH / 64 * OWN_FACTORS / 2>(&first_gradient.sums[0][0]);
    sum_lanes(totals);
    if (values.lane == 0 && warpgroup == 0) {
        shared.losses[values.warp][0] = totals.loss;
        shared.losses[values.warp][1] = totals.squared_error;
        for (int channel = 0; channel < CHANNELS; ++channel)
            shared.output_bias_sums[values.warp][channel] = totals.output_bias[channel];
    }
    __syncthreads();
    write_parts(first_gradient, memory, values, shared);
}
