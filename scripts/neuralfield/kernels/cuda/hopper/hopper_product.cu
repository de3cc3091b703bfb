// Forward, loss and backward of one batch, fused, and the gradients of all weights, for a product
// of linear maps of Fourier and Chebyshev features with a relu layer behind it; twin:
// kernels/layers.py.
//
// Weights stay in shared memory, and so do the factors, products and values of a pair of tiles. The
// sums of the first weight's gradient stay in registers over all tiles of a block; for those of the
// second there is no room, and they are added up in the second-level cache.
//
// Slopes are those of the sum over the batch, times GRADIENT_SCALE, which keeps small ones out of
// float16's subnormal numbers.
//
// Constants: those of hopper_product.cuh.
#include "hopper_product_features.cuh"
#include "hopper_product_gradients.cuh"

static_assert(THE_REST + sizeof(ProductShared) <= SHARED_BYTES, "the host has to count more");

__device__ __forceinline__ void sync_block() { named_sync<CONSUMERS>(ALL_CONSUMERS); }

// Two numbers of a row of `from`, as far as they are there: rows begin at even places, if their
// lengths are even.
__device__ __forceinline__ float2 two_of(const float* from, int column, bool there) {
    float2 pair = {0.0f, 0.0f};
    if (WIDTH % 2 == 0) {
        if (there && column < WIDTH) pair = __ldg(reinterpret_cast<const float2*>(from + column));
    } else {
        if (there && column < WIDTH) pair.x = __ldg(from + column);
        if (there && column + 1 < WIDTH) pair.y = __ldg(from + column + 1);
    }
    return pair;
}

// A matrix in float16, in blocks of 8 x 8: `pair_of(row, first, own)` has the numbers at the column
// first + own and the next. A warp takes 4 rows and 16 columns, from `first` on, at a time.
template <int rows, int columns, typename Pairs>
__device__ __forceinline__ void pack_blocks(char* packed, const Pairs& pair_of) {
    const int own = threadIdx.x % 8 * 2;
    for (int row = threadIdx.x / 8; row < rows; row += CONSUMERS / 8)
#pragma unroll
        for (int first = 0; first < columns; first += 16) {
            const float2 pair = pair_of(row, first, own);
            const int block = row / 8 * (columns / 8) + first / 8 + own / 8;
            *reinterpret_cast<uint32_t*>(packed + block * 128 + row % 8 * 16 + own % 8 * 2) =
                pack(pair.x, pair.y);
        }
}

// Weights as products want them, and all other constants.
__device__ __forceinline__ void load_weights(char* memory, ProductShared& shared) {
    const ProductArguments& arguments = shared.arguments;
    const float* parameters = arguments.parameters;
    const Offsets& at = arguments.offsets;
    const float *first = parameters + at.weight[0], *second = parameters + at.weight[1];
    pack_blocks<INPUT_WIDTH, ALL_FACTORS>(memory + FIRST_WEIGHT, [&](int row, int to, int own) {
        const float* weights = first + (weight_row(row) * FACTORS + factor_of(to)) * WIDTH;
        const bool there = row < FEATURES && row != CONSTANT + 1;
        return two_of(weights, place_in_factor(to) + own, there);
    });
    pack_blocks<PADDED, PADDED>(memory + SECOND_WEIGHT, [&](int row, int column, int own) {
        return two_of(second + row * WIDTH, column + own, row < WIDTH);
    });
    __syncthreads();  // the constant's row is there, and becomes all that is multiplied with 1
    __half* packed = reinterpret_cast<__half*>(memory + FIRST_WEIGHT);
    for (int i = threadIdx.x; i < ALL_FACTORS; i += CONSUMERS) {
        const int from = factor_of(i) * WIDTH + place_in_factor(i);
        const float* weight = first + CONSTANT * FACTORS * WIDTH + from;
        float sum = 0.0f;
        if (place_in_factor(i) < WIDTH) {
            if (CONSTANT < FEATURES) sum += weight[0] + weight[FACTORS * WIDTH];
            if (at.bias[0] >= 0) sum += parameters[at.bias[0] + from];
        }
        packed[place_in_blocks(CONSTANT, i, ALL_FACTORS)] = __float2half_rn(sum);
    }
    for (int i = threadIdx.x; i < FOURIER_COUNT; i += CONSUMERS)
        shared.turns[i] =
            make_float2(arguments.frequencies[i], arguments.frequencies[FOURIER_COUNT + i]);
    for (int i = threadIdx.x; i < PADDED; i += CONSUMERS) {
        const bool there = i < WIDTH;
        shared.second_bias[i] = there && at.bias[1] >= 0 ? parameters[at.bias[1] + i] : 0.0f;
        shared.second_bias_sums[i] = 0.0f;
        for (int channel = 0; channel < CHANNELS; ++channel) {
            shared.output_weight[channel][i] =
                there ? parameters[at.weight[2] + i * CHANNELS + channel] : 0.0f;
            for (int tile = 0; tile < BLOCK_TILES; ++tile)
                shared.output_weight_sums[tile][i][channel] = 0.0f;
        }
    }
    if (threadIdx.x < CHANNELS)
        shared.output_bias[threadIdx.x] =
            at.bias[2] >= 0 ? parameters[at.bias[2] + threadIdx.x] : 0.0f;
    const uint32_t two_ones = 0x3C003C00;
    if (threadIdx.x < 16)
        shared.ones[threadIdx.x] = make_uint4(two_ones, two_ones, two_ones, two_ones);
}

// The block's parts of all gradients but the second weight's. That of the first is put together in
// shared memory, in place of all that is not needed any more, and copied in one go.
__device__ __forceinline__ void write_parts(const FirstGradient& gradient, char* memory,
                                            const Table& table, const ProductShared& shared) {
    const ProductArguments& arguments = shared.arguments;
    const size_t block = blockIdx.x;
    constexpr int row_numbers = FACTORS * PITCH, first_bytes = 4 * FEATURES * row_numbers;
    static_assert(4 * INPUT_WIDTH * row_numbers <= THE_REST, "there is room for it");
    float* first = reinterpret_cast<float*>(memory);
#pragma unroll
    for (int chunk = 0; chunk < INPUT_WIDTH / 64; ++chunk)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            float* row = first + weight_row(row_of(table, chunk, i)) * row_numbers;
#pragma unroll
            for (int j = 0; j < OWN_FACTORS / 8; ++j) {
                const int place = factor_of(8 * j) * PITCH + table.number * OWN +
                                  place_in_factor(8 * j) + own_column();
                const float* sums = gradient.sums[chunk] + 4 * j + 2 * i;
                *reinterpret_cast<float2*>(row + place) = make_float2(sums[0], sums[1]);
            }
        }
    shared_written();
    __syncthreads();
    if (threadIdx.x == 0)
        bulk_store(arguments.first_weight + block * FEATURES * row_numbers, first, first_bytes);
    for (int i = threadIdx.x; i < row_numbers; i += CONSUMERS)
        arguments.first_bias[block * row_numbers + i] = first[CONSTANT * row_numbers + i];
    for (int i = threadIdx.x; i < PADDED; i += CONSUMERS)
        arguments.second_bias[block * PADDED + i] = shared.second_bias_sums[i];
    for (int i = threadIdx.x; i < PADDED * CHANNELS; i += CONSUMERS) {
        float sum = 0.0f;
        for (int tile = 0; tile < BLOCK_TILES; ++tile)
            sum += (&shared.output_weight_sums[tile][0][0])[i];
        arguments.output_weight[block * PADDED * CHANNELS + i] = sum;
    }
    if (threadIdx.x < CHANNELS) {
        float sum = 0.0f;
        for (int warp = 0; warp < 4 * BLOCK_TILES; ++warp)
            sum += shared.output_bias_sums[warp][threadIdx.x];
        arguments.output_bias[block * CHANNELS + threadIdx.x] = sum;
    }
    if (threadIdx.x == 0) {
        double loss = 0.0, squared_error = 0.0;
        for (int warp = 0; warp < 4 * BLOCK_TILES; ++warp) {
            loss += shared.losses[warp][0];
            squared_error += shared.losses[warp][1];
        }
        const double count = double(PIXELS) * CHANNELS;
        arguments.loss_partials[block] = make_double2(loss / count, squared_error / count);
        bulk_stores_done();
    }
}

// From features to factors and products: a unit is under way while the one before is put down.
__device__ __forceinline__ void make_products(const uint32_t (&features)[INPUT_WIDTH / 4],
                                              uint32_t weight, const Table& factors,
                                              const Table& products) {
    float sums[2][FACTORS * UNIT / 2];
    start_factors(sums[0], features, weight, 0);
#pragma unroll
    for (int unit = 0; unit < UNITS; ++unit) {
        if (unit + 1 < UNITS) {
            start_factors(sums[(unit + 1) % 2], features, weight, unit + 1);
            wgmma_wait<1>();
        } else {
            wgmma_wait<0>();
        }
        finished_sums<FACTORS * UNIT / 2>(sums[unit % 2]);
        if (unit == 0) sync_block();  // all have done with the tiles before
        put_factors(sums[unit % 2], factors, products, unit);
    }
}

extern "C" __global__ void __launch_bounds__(CONSUMERS, 1)
    hopper_product(const ProductArguments* given) {
    extern __shared__ __align__(128) char memory[];
    ProductShared& shared = *reinterpret_cast<ProductShared*>(memory + THE_REST);
    if (threadIdx.x == 0) shared.arguments = *given;
    __syncthreads();
    load_weights(memory, shared);
    shared_written();
    __syncthreads();
    const ProductArguments& arguments = shared.arguments;
    const int warpgroup = __shfl_sync(~0u, threadIdx.x / 128, 0);
    auto table_at = [&](int place) {
        return Table{memory + place, warpgroup, int(threadIdx.x) / 32 % 4, int(threadIdx.x) % 32};
    };
    const Table factors = table_at(FACTOR_TABLES + warpgroup * FACTORS_BYTES);
    const Table products = table_at(PRODUCTS + warpgroup * VALUES_BYTES);
    const Table values = table_at(RELUS + warpgroup * VALUES_BYTES);
    const Table feature_table = table_at(FEATURE_TABLES + warpgroup * FEATURES_BYTES);
    const uint32_t first_weight = shared_address(memory + FIRST_WEIGHT);
    const uint32_t second_weight = shared_address(memory + SECOND_WEIGHT);
    Totals totals;
    FirstGradient first_gradient;
    // the last pair may have a tile too many, which counts for nothing
    int index = BLOCK_TILES * blockIdx.x + warpgroup;
    Points tile = {min(index, TILES - 1)};
    tile.fetch(arguments, values);
    uint32_t features[INPUT_WIDTH / 4];
    clear_second_gradient(values, shared);
    make_features(features, tile.points, shared);
    for (int pair = blockIdx.x; BLOCK_TILES * pair < TILES; pair += gridDim.x) {
        make_products(features, first_weight, factors, products);
        float z[2][CHANNELS];
        uint32_t pairs[PADDED / 4];
        make_values(pairs, z, products, values, second_weight, shared);
        const float2 errors = loss_of_points(z, ProductTile{tile, values, shared});
        const bool is_there = TILES % BLOCK_TILES == 0 || index < TILES;
        totals.loss += is_there ? errors.x : 0.0f;
        totals.squared_error += is_there ? errors.y : 0.0f;
#pragma unroll
        for (int channel = 0; channel < CHANNELS; ++channel) {
#pragma unroll
            for (int i = 0; i < 2; ++i) z[i][channel] = is_there ? z[i][channel] : 0.0f;
            totals.output_bias[channel] +=
                values.lane % 4 == 0 ? z[0][channel] + z[1][channel] : 0.0f;
        }
        note_numbers(shared.slopes[warpgroup], values, z);
        values.show();
        put_slopes(pairs, z, values, shared);
        put_slopes_of_factors(pairs, factors, second_weight);
        fetch_features(features, shared);
        shared_written();
        sync_block();  // both tiles' products and slopes are there
        SecondGradient second_gradient;
        start_second_gradient(second_gradient, shared_address(memory + PRODUCTS),
                              shared_address(memory + RELUS), warpgroup, shared.ones);
        index += BLOCK_TILES * gridDim.x;
        tile.index = min(index, TILES - 1);
        tile.fetch(arguments, values);
        wgmma_wait<0>();
        finished_sums<blocks_of(PADDED) * OWN / 2>(&second_gradient.sums[0][0]);
        finished_sums<4>(second_gradient.bias);
        sync_block();  // all have done with products and values
        put_operand<INPUT_WIDTH>(feature_table, features);
        shared_written();
        sync_block();
        // A warpgroup has to wait where it starts many products: one does so while the other
        // makes features.
        if (warpgroup) make_features(features, tile.points, shared);
        start_first_gradient(first_gradient, shared_address(memory + FEATURE_TABLES),
                             shared_address(memory + FACTOR_TABLES), warpgroup);
        add_second_gradient(second_gradient, values, shared);
        if (!warpgroup) make_features(features, tile.points, shared);
        wgmma_wait<0>();
        finished_sums<INPUT_WIDTH / 64 * OWN_FACTORS / 2>(&first_gradient.sums[0][0]);
    }
    sum_lanes(totals);
    if (values.lane == 0) {
        const int warp = threadIdx.x / 32;
        shared.losses[warp][0] = totals.loss;
        shared.losses[warp][1] = totals.squared_error;
        for (int channel = 0; channel < CHANNELS; ++channel)
            shared.output_bias_sums[warp][channel] = totals.output_bias[channel];
    }
    __syncthreads();
    write_parts(first_gradient, memory, values, shared);
}
