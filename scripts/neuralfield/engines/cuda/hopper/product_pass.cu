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
// Constants: those of product_pass.cuh.
#include "product_features.cuh"
#include "product_gradients.cuh"

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
#pragma unroll
    for (int i = 0; i < rows / (CONSUMERS / 8); ++i)
#pragma unroll
        for (int first = 0; first < columns; first += 16) {
            const int row = i * (CONSUMERS / 8) + threadIdx.x / 8;
            const float2 pair = pair_of(row, first, own);
            const int block = row / 8 * (columns / 8) + first / 8 + own / 8;
            *reinterpret_cast<uint32_t*>(packed + block * 128 + row % 8 * 16 + own % 8 * 2) =
                pack(pair.x, pair.y);
        }
}

// Calls `work(i)` for so many numbers, from thread `first` on: what different threads load, none of
// them waits for twice.
template <typename Work>
__device__ __forceinline__ void share_out(int first, int count, const Work& work) {
    const int own = (threadIdx.x + CONSUMERS - first % CONSUMERS) % CONSUMERS;
    for (int i = own; i < count; i += CONSUMERS) work(i);
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
    share_out(0, ALL_FACTORS, [&](int i) {
        const int from = factor_of(i) * WIDTH + place_in_factor(i);
        const float* weight = first + CONSTANT * FACTORS * WIDTH + from;
        float sum = 0.0f;
        if (place_in_factor(i) < WIDTH) {
            if (CONSTANT < FEATURES) sum += __ldg(weight) + __ldg(weight + FACTORS * WIDTH);
            if (at.bias[0] >= 0) sum += __ldg(parameters + at.bias[0] + from);
        }
        packed[place_in_blocks(CONSTANT, i, ALL_FACTORS)] = __float2half_rn(sum);
    });
    share_out(ALL_FACTORS, FOURIER_COUNT, [&](int i) {
        shared.turns[i] =
            make_float2(arguments.frequencies[i], arguments.frequencies[FOURIER_COUNT + i]);
    });
    share_out(ALL_FACTORS + FOURIER_COUNT, PADDED, [&](int i) {
        const bool there = i < WIDTH;
        shared.second_bias[i] =
            there && at.bias[1] >= 0 ? __ldg(parameters + at.bias[1] + i) : 0.0f;
        shared.second_bias_sums[i] = 0.0f;
        const float* weights = parameters + at.weight[2] + i * CHANNELS;
#pragma unroll
        for (int channel = 0; channel < 16; ++channel) {
            const float weight = there && channel < CHANNELS ? __ldg(weights + channel) : 0.0f;
            if (channel < CHANNELS) shared.output_weight[channel % CHANNELS][i] = weight;
            shared.output_weight_back[place_in_blocks(channel, i, PADDED)] =
                __float2half_rn(weight);
        }
    });
    for (int i = threadIdx.x; i < BLOCK_TILES * PADDED * CHANNELS; i += CONSUMERS)
        (&shared.output_weight_sums[0][0][0])[i] = 0.0f;
    if (threadIdx.x < CHANNELS)
        shared.output_bias[threadIdx.x] =
            at.bias[2] >= 0 ? parameters[at.bias[2] + threadIdx.x] : 0.0f;
    if (threadIdx.x < CONSUMERS / 4) shared.point_sums[threadIdx.x] = {};
    const uint32_t two_ones = 0x3C003C00;
    if (threadIdx.x < 16)
        shared.ones[threadIdx.x] = make_uint4(two_ones, two_ones, two_ones, two_ones);
}

// The block's parts of all gradients. That of the first weight is put together in shared memory, in
// place of all that is not needed any more, and copied in one go.
__device__ __forceinline__ void write_parts(const FirstGradient& gradient, char* memory,
                                            const Table& table, const ProductShared& shared) {
    const ProductArguments& arguments = shared.arguments;
    const size_t block = blockIdx.x;
    constexpr int row_numbers = FACTORS * PITCH, first_bytes = 4 * FEATURES * row_numbers;
    static_assert(4 * INPUT_WIDTH * row_numbers <= THE_REST, "there is room for it");
    float* first = reinterpret_cast<float*>(memory);
    float4 second[SECOND_FOURS];
    for_second_sums(table, [&](int chunk, int i) {
        second[chunk * (OWN / 8) + i] = __ldcg(second_sums(shared, chunk, i));
    });
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
    fence_shared();
    __syncthreads();
    if (threadIdx.x == 0)
        bulk_store(arguments.first_weight + block * FEATURES * row_numbers, first, first_bytes);
    for (int i = threadIdx.x; i < row_numbers; i += CONSUMERS)
        arguments.first_bias[block * row_numbers + i] = first[CONSTANT * row_numbers + i];
    for_second_sums(table, [&](int chunk, int i) {
        const float4 sums = second[chunk * (OWN / 8) + i];
        float* row = arguments.second_weight + (block * PADDED + row_of(table, chunk, 0)) * PADDED +
                     table.number * OWN + 8 * i + own_column();
        *reinterpret_cast<float2*>(row) = make_float2(sums.x, sums.y);
        *reinterpret_cast<float2*>(row + 8 * PADDED) = make_float2(sums.z, sums.w);
    });
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
        for (const PointSums& sums : shared.point_sums) sum += sums.output_bias[threadIdx.x];
        arguments.output_bias[block * CHANNELS + threadIdx.x] = sum;
    }
    if (threadIdx.x == 0) {
        double loss = 0.0, squared_error = 0.0;
        for (const PointSums& sums : shared.point_sums) {
            loss += sums.loss;
            squared_error += sums.squared_error;
        }
        const double count = double(PIXELS) * CHANNELS;
        arguments.loss_partials[block] = make_double2(loss / count, squared_error / count);
        bulk_stores_done();
    }
}

// Count a thread's points, or, where the last pair has a tile too many, none: their slopes are 0.
__device__ __forceinline__ void add_points(float2 errors, float (&slopes)[2][CHANNELS],
                                           bool is_there, ProductShared& shared) {
    PointSums& sums = shared.point_sums[threadIdx.x / 4];
    const bool counts = threadIdx.x % 4 == 0 && is_there;
    if (counts) {
        sums.loss += errors.x;
        sums.squared_error += errors.y;
    }
#pragma unroll
    for (int channel = 0; channel < CHANNELS; ++channel) {
        if (counts) sums.output_bias[channel] += slopes[0][channel] + slopes[1][channel];
#pragma unroll
        for (int i = 0; i < 2; ++i) slopes[i][channel] = is_there ? slopes[i][channel] : 0.0f;
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
    fence_shared();
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
    FirstGradient first_gradient;
    for_second_sums(values, [&](int chunk, int i) {
        __stcg(second_sums(shared, chunk, i), make_float4(0.0f, 0.0f, 0.0f, 0.0f));
    });
    int index = BLOCK_TILES * blockIdx.x + warpgroup;
    Points tile = {min(index, TILES - 1)};
    tile.fetch_points(arguments, values);
    uint32_t features[INPUT_WIDTH / 4];
    make_features(features, tile.points, shared);
    for (int pair = blockIdx.x; BLOCK_TILES * pair < TILES; pair += gridDim.x) {
        make_products(features, first_weight, factors, products);
        tile.fetch(arguments, values);
        float z[2][CHANNELS];
        uint32_t pairs[PADDED / 4];
        make_values(pairs, z, products, values, second_weight, shared);
        const float2 errors = loss_of_points(z, ProductTile{tile, values, shared});
        add_points(errors, z, index < TILES, shared);
        index += BLOCK_TILES * gridDim.x;
        tile.index = min(index, TILES - 1);
        tile.fetch_points(arguments, values);
        note_numbers(shared.slopes[warpgroup], values, z);
        float output_gradient[blocks_of(PADDED)][4];
        put_slopes(pairs, output_gradient, z, values, shared);
        put_slopes_of_factors(pairs, factors, second_weight,
                              [&] { add_output_gradient(output_gradient, values, shared); });
        fetch_features(features, shared);
        fence_shared();
        sync_block();  // both tiles' products and slopes are there
        SecondGradient second_gradient;
        start_second_gradient(second_gradient, shared_address(memory + PRODUCTS),
                              shared_address(memory + RELUS), warpgroup, shared.ones);
        wgmma_wait<0>();
        finished_sums<blocks_of(PADDED) * OWN / 2>(&second_gradient.sums[0][0]);
        finished_sums<4>(second_gradient.bias);
        sync_block();  // all have done with products and values
        put_operand<INPUT_WIDTH>(feature_table, features);
        fence_shared();
        sync_block();
        // A warpgroup has to wait where it starts many products: one does so while the other
        // makes features.
        auto meanwhile = [&] {
            add_second_gradient(second_gradient, values, shared);
            make_features(features, tile.points, shared);
        };
        if (warpgroup) meanwhile();
        start_first_gradient(first_gradient, shared_address(memory + FEATURE_TABLES),
                             shared_address(memory + FACTOR_TABLES), warpgroup);
        if (!warpgroup) meanwhile();
        wgmma_wait<0>();
        finished_sums<INPUT_WIDTH / 64 * OWN_FACTORS / 2>(&first_gradient.sums[0][0]);
    }
    __syncthreads();
    write_parts(first_gradient, memory, values, shared);
}
