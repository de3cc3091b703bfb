// The sums of weight_gradients.cu by warpgroups.
//
// The kernel does not wait for the whole of wide_pass.cu. It first needs the full waves, which
// wide_pass.cu counts separately, and adds these up while other blocks still work on the last wave.
//
// Each of a block's two consumer warpgroups has 64 of the job's rows or, if the matrix has at most 64
// rows, every other tile. In a third warpgroup, one warp loads tiles, and the other warps add up the
// gradients of biases, which would delay the matrix products of the consumers.
//
// If all matrices take two jobs, two neighbouring blocks (a cluster) have those of the same tiles:
// each block loads half of a tile's gradients to both blocks, and sums part of the bias's columns.
//
// Constants: SHARERS (blocks of a cluster), FULL_COUNT, LAST_COUNT (final counts of wide_pass.cu).
#pragma once

constexpr int CONSUMERS = 256;
constexpr int BIAS_WARPS = 3;  // in the warpgroup that loads tiles

struct Shared {
    uint64_t filled[WEIGHT_STAGES], emptied[WEIGHT_STAGES];
};

template <typename Shape>
__device__ __forceinline__ void bring(Shape, const Job& job, const Tiles& tiles, char* buffer,
                                      Shared& shared, RingPlace& place) {
    constexpr int rows = Shape::rows, columns = Shape::columns;
    constexpr int value_bytes = TILE_POINTS * rows * 2, gradient_bytes = TILE_POINTS * columns * 2;
    for (int i = 0; i < tiles.count; ++i, place.advance(WEIGHT_STAGES)) {
        const int tile = tiles.newest - i * tiles.step;
        barrier_wait(&shared.emptied[place.stage], place.parity ^ 1);
        uint64_t* filled = &shared.filled[place.stage];
        char* stage = buffer + place.stage * STAGE_BYTES;
        barrier_expect_bytes(filled, value_bytes + gradient_bytes);
        const char* values =
            job.values + size_t(tile) * job.value_columns * TILE_POINTS * 2 + job.first_column * 16;
        const bool has_all_rows = job.value_columns == rows;
        if (has_all_rows)
            bulk_copy_once(stage + gradient_bytes, values, value_bytes, filled);
        else
            for (int part = 0; part < 8; ++part)  // 8 points each
                bulk_copy_once(stage + gradient_bytes + part * (value_bytes / 8),
                               values + part * job.value_columns * 16, value_bytes / 8, filled);
        const char* gradients = job.gradients + size_t(tile) * gradient_bytes;
        if (SHARERS > 1) {
            constexpr int share = gradient_bytes / SHARERS;
            const int first = block_of_cluster() * share;
            bulk_copy_to_cluster<SHARERS>(stage + first, gradients + first, share, filled);
        } else if (has_all_rows)
            bulk_copy_once(stage, gradients, gradient_bytes, filled);
        else  // other blocks read the same gradients for their rows
            bulk_copy(stage, gradients, gradient_bytes, filled);
    }
}

// Reports that this warp has read a stage, so that the cluster's blocks may fill it again.
__device__ __forceinline__ void leave(uint64_t* emptied, int lane) {
    __syncwarp();
    if (SHARERS == 1) {
        if (lane == 0) barrier_arrive(emptied);
    } else {
        if (lane < SHARERS) barrier_arrive_at(emptied, lane);
    }
}

template <typename Shape>
__device__ __forceinline__ void add_up(Shape, const Job& job, const char* buffer, Shared& shared) {
    constexpr int rows = Shape::rows, columns = Shape::columns;
    constexpr bool alternate = Shape::alternate;
    constexpr int value_row = rows / 8 * 128, gradient_row = columns / 8 * 128;
    const int group = threadIdx.x / 128, warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
    float sums[columns / 2];
#pragma unroll
    for (int i = 0; i < columns / 2; ++i) sums[i] = 0.0f;

    RingPlace place;
    int previous = -1;
    for (int i = 0; i < job.count(); ++i, place.advance(WEIGHT_STAGES)) {
        barrier_wait(&shared.filled[place.stage], place.parity);
        bool is_own = !alternate || i % 2 == group;
        if (is_own) {
            uint32_t gradients = shared_address(buffer + place.stage * STAGE_BYTES);
            uint32_t values = gradients + TILE_POINTS * columns * 2;
            if (!alternate) values += group * 1024;
            // a product always reads 64 rows; what it reads behind fewer rows has no effect
            begin_products();
#pragma unroll
            for (int k = 0; k < TILE_POINTS / 16; ++k)
                TileProduct<columns>::template add<1>(
                    sums, block_matrix(values + 2 * k * value_row, value_row, 128),
                    block_matrix(gradients + 2 * k * gradient_row, gradient_row, 128));
            commit_products();
        }
        // Once the product of the tile before is done, its stage is free.
        if (is_own)
            wait_for_products<1>();
        else
            wait_for_products<0>();
        if (previous >= 0) leave(&shared.emptied[previous], lane);
        if (!is_own) leave(&shared.emptied[place.stage], lane);
        previous = is_own ? place.stage : -1;
    }
    wait_for_products<0>();
    finished_sums<columns / 2>(sums);

    float* partial = job.weight_partial + (alternate ? group * rows * columns : 0);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        int row = (alternate ? 0 : group * 64) + warp * 16 + lane / 4 + 8 * i;
        if (row < rows)
#pragma unroll
            for (int j = 0; j < columns / 8; ++j)
                *reinterpret_cast<float2*>(partial + row * columns + 8 * j + lane % 4 * 2) =
                    make_float2(sums[4 * j + 2 * i], sums[4 * j + 2 * i + 1]);
    }
}

// Adds a tile's gradients of two of 8 columns, in every 8th row, to the sums of these columns.
template <int columns>
__device__ __forceinline__ void add_bias_gradients(float2& sums, const char* gradients) {
    float2 rows[8];
#pragma unroll
    for (int i = 0; i < 8; ++i)
        rows[i] = unpack(*reinterpret_cast<const uint32_t*>(gradients + i * (columns / 8 * 128)));
#pragma unroll
    for (int half = 4; half > 0; half /= 2)
#pragma unroll
        for (int i = 0; i < half; ++i) {
            rows[i].x += rows[i + half].x;
            rows[i].y += rows[i + half].y;
        }
    sums.x += rows[0].x;
    sums.y += rows[0].y;
}

// Sums the gradients of the biases; each warp has some blocks of 8 columns.
template <typename Shape>
__device__ __forceinline__ void add_up_bias(Shape, const Job& job, const char* buffer,
                                            Shared& shared) {
    constexpr int columns = Shape::columns, warps = BIAS_WARPS * SHARERS;
    constexpr int own_blocks = (columns / 8 + warps - 1) / warps, parts = Shape::alternate ? 2 : 1;
    const int warp = (threadIdx.x - CONSUMERS) / 32 - 1 + BIAS_WARPS * block_of_cluster();
    const int lane = threadIdx.x % 32;
    float2 sums[parts][own_blocks] = {};
    RingPlace place;
    const auto add_tile = [&](float2 (&sums)[own_blocks]) {
        barrier_wait(&shared.filled[place.stage], place.parity);
        const char* gradients = buffer + place.stage * STAGE_BYTES + warp * 128 + lane * 4;
#pragma unroll
        for (int i = 0; i < own_blocks; ++i)  // sums behind the last column are not written
            add_bias_gradients<columns>(sums[i], gradients + warps * i * 128);
        fence_shared();  // the gradients must be read before others are copied there
        leave(&shared.emptied[place.stage], lane);
        place.advance(WEIGHT_STAGES);
    };
    for (int i = 0; i < job.count(); i += parts) {
        add_tile(sums[0]);
        if (Shape::alternate && i + 1 < job.count()) add_tile(sums[parts - 1]);
    }
#pragma unroll
    for (int part = 0; part < parts; ++part)
#pragma unroll
        for (int i = 0; i < own_blocks; ++i) {
            float2 sum = sums[part][i];
#pragma unroll
            for (int distance = 16; distance >= 4; distance /= 2) {
                sum.x += __shfl_xor_sync(~0u, sum.x, distance);
                sum.y += __shfl_xor_sync(~0u, sum.y, distance);
            }
            const int column = 8 * (warp + warps * i) + 2 * lane;
            if (lane < 4 && column < columns)
                *reinterpret_cast<float2*>(job.bias_partial + part * columns + column) = sum;
        }
}

__device__ __forceinline__ void bring_all(const Job& job, Counters* counters, char* buffer,
                                          Shared& shared) {
    RingPlace place;
    if (job.full.count) wait_for_count(&counters->full, FULL_COUNT);
    for_shape(job, [&](auto shape) { bring(shape, job, job.full, buffer, shared, place); });
    if (job.last.count) wait_for_count(&counters->last, LAST_COUNT);
    for_shape(job, [&](auto shape) { bring(shape, job, job.last, buffer, shared, place); });
    wait_for_earlier_kernels();
    if (atomicAdd(&counters->read, 1u) == gridDim.x - 1) *counters = {};  // for the next step
}

extern "C" __global__ void __cluster_dims__(SHARERS, 1, 1) __launch_bounds__(CONSUMERS + 128, 1)
    weight_gradients(const Job* jobs, Counters* counters) {
    extern __shared__ __align__(128) char memory[];
    Shared& shared = *reinterpret_cast<Shared*>(memory + WEIGHT_STAGES * STAGE_BYTES + 1024);
    const Job job = jobs[blockIdx.x];
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < WEIGHT_STAGES; ++stage) {
            barrier_init(&shared.filled[stage], 1);
            barrier_init(&shared.emptied[stage],
                         SHARERS * (CONSUMERS / 32 + (job.bias_partial ? BIAS_WARPS : 0)));
        }
        barrier_init_fence();
    }
    meet<SHARERS>();
    if (threadIdx.x >= CONSUMERS) {
        give_registers<72>();
        if (threadIdx.x == CONSUMERS)
            bring_all(job, counters, memory, shared);
        else if (threadIdx.x >= CONSUMERS + 32 && job.bias_partial)
            for_shape(job, [&](auto shape) { add_up_bias(shape, job, memory, shared); });
    } else {
        take_registers<216>();
        for_shape(job, [&](auto shape) { add_up(shape, job, memory, shared); });
    }
    if (SHARERS > 1) meet<SHARERS>();  // until then, the other block may access this block's memory
}
