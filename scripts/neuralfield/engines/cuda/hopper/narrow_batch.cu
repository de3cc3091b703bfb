// The pass hopper-narrow for several networks of one shape in one launch, with the same sums for
// each network as in a launch of its own.
//
// In a launch of its own, tile t belongs to block (here: unit) t % UNITS. Each warpgroup of the
// block sums over a chain of tiles, the block sums over its chains, and the update sums, for each
// of PARTIAL_SUMS partial sums, over every PARTIAL_SUMS-th block. Here a block computes a whole
// partial sum, tile by tile, and then another partial sum of the network. BLOCK_TILES warpgroups,
// the workers, take tiles in turn, forwards and backwards. They wait only for the two other
// warpgroups, the reducers, which add up the gradients in the order of the tiles, each for some of
// the layers. The update adds up the partial sums.
//
// Grid: (partial sums at a time, networks). There are two sets of arguments for each network: with
// the batches of even steps, and with those of odd steps.
//
// Constants: UNITS (blocks of a launch of its own), UNIT_CHAINS (warpgroups of such a block),
// PARTIAL_SUMS, EXCHANGE_BYTES (which the host reserves), and those of narrow_pass.cu.
#include "../dependent_launch.cuh"
#include "../fused/narrow_pass.cu"
#include "narrow_batch.cuh"

// ---- workers -------------------------------------------------------------------------------

// Stores the totals that a thread's points add to those of a chain of several tiles.
__device__ __forceinline__ void store_errors(float (*stored)[2 + CHANNELS], const LaneTotals& own) {
    float* of_points = stored[threadIdx.x % 128 / 4];
    const int lane = threadIdx.x % 4;
    if (lane < 2) of_points[lane] = own.error;
    if (lane < CHANNELS) of_points[2 + lane] = own.output_bias;
}

// A worker leaves the sums over its tiles to the reducers.
struct HandedOver {
    static constexpr int products_under_way = 0;
    Exchange& exchange;
    int parity;  // of the worker's tiles

    __device__ __forceinline__ void wait_for_buffers(const Tile& tile) const {
        barrier_wait(&exchange.buffers_free[tile.buffer.number][0], parity ^ 1);
        if (SPLIT > 0) barrier_wait(&exchange.buffers_free[tile.buffer.number][1], parity ^ 1);
    }

    __device__ __forceinline__ void add_totals(const Tile& tile, const LaneTotals& own) const {
        if constexpr (LONG_CHAINS)
            store_errors(exchange.errors[tile.buffer.number], own);
        else
            store_totals(exchange.tile_totals[tile.buffer.number], own, tile.buffer.warp);
        tile.fetch_next();
    }

    template <int layer>
    __device__ __forceinline__ void add(const Tile& tile, const TileBuffer&) const {
        fence_shared();
        arrive_as_warp(&exchange.gradients_here[tile.buffer.number][layer]);
    }
};

// Processes the tiles of a worker from `place` on; `next` has the points of the first of them.
__device__ __forceinline__ void work(char* memory, Shared& shared, Exchange& exchange, int worker,
                                     Place place, PointsOf<true> next) {
    char* own_buffers = memory + WEIGHTS_BYTES + worker * BUFFERS * TILE_BYTES;
    const TileBuffer buffer = buffer_of(own_buffers, worker);
    HandedOver summing = {exchange, 0};
    while (next.index < TILES) {
        Tile tile = {next, own_buffers, memory, shared, buffer, next};
        place.advance(BLOCK_TILES);
        next.index = place.tile;
        work_on(tile, summing);
        summing.parity ^= 1;
    }
}

// ---- reducers -------------------------------------------------------------------------------

// Gradients of a reducer's layers, summed over a chain, or in a fixed order over chains or units.
template <int reducer>
struct Sums {
    static constexpr int first = reducer == 0 ? SPLIT : 0, end = reducer == 0 ? HIDDEN : SPLIT;
    static constexpr int count = reducer == 0 ? SUMS_BEHIND : SUMS_BEFORE;
    float weights[count > 0 ? count : 1] = {};
    float biases[HIDDEN][4] = {}, output[4] = {}, coordinates[8] = {};

    template <int layer>
    __device__ __forceinline__ float* weights_of() {
        constexpr int before = weight_sums_before(layer);
        return weights + (reducer == 0 ? before - SUMS_BEFORE : before);
    }

    __device__ __forceinline__ void finish() {
        finished_sums<count>(weights);
        finished_sums<4 * (end - first)>(biases[first]);
        if (reducer == 0) finished_sums<4>(output);
        if (first == 0) finished_sums<8>(coordinates);
    }

    __device__ __forceinline__ void add_vectors(const Sums& others) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
#pragma unroll
            for (int layer = first; layer < end; ++layer)
                biases[layer][i] += others.biases[layer][i];
            if (reducer == 0) output[i] += others.output[i];
            if (first == 0) coordinates[i] += others.coordinates[i] + others.coordinates[4 + i];
        }
    }

    __device__ __forceinline__ void add(const Sums& others) {
#pragma unroll
        for (int i = 0; i < count; ++i) weights[i] += others.weights[i];
        add_vectors(others);
    }

    // Adds a unit's sums to those of its partial sum.
    __device__ __forceinline__ void add_weights_to(float4 (*sums)[128]) const {
#pragma unroll
        for (int i = 0; i < count / 4; ++i) {
            float4 sum = sums[i][threadIdx.x % 128];
            sum.x += weights[4 * i];
            sum.y += weights[4 * i + 1];
            sum.z += weights[4 * i + 2];
            sum.w += weights[4 * i + 3];
            sums[i][threadIdx.x % 128] = sum;
        }
    }

    // Loads the sums of a partial sum, and sets them to zero in shared memory.
    __device__ __forceinline__ void take_weights_of(float4 (*sums)[128]) {
#pragma unroll
        for (int i = 0; i < count / 4; ++i) {
            float4 sum = sums[i][threadIdx.x % 128];
            sums[i][threadIdx.x % 128] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            weights[4 * i] = sum.x;
            weights[4 * i + 1] = sum.y;
            weights[4 * i + 2] = sum.z;
            weights[4 * i + 3] = sum.w;
        }
    }

    template <int layer>
    __device__ __forceinline__ void write_weights(const Arguments& arguments, int part) {
        if constexpr (layer >= first && layer >= first_product) {
            write_part<layer>(weights_of<layer>(), biases[layer], arguments, part);
            write_weights<layer - 1>(arguments, part);
        }
    }

    // Writes all sums as a part of the gradient; `buffer` has the warp and lane of this thread.
    __device__ __forceinline__ void write(const Arguments& arguments, const TileBuffer& buffer,
                                          int part) {
        write_weights<end - 1>(arguments, part);
        float* vectors = arguments.vector_partials + size_t(part) * VECTORS * WIDEST;
        const auto put = [&](int vector, int column, float sum) {
            vectors[place_of_vector(vector * WIDEST + column)] = sum;
        };
        if (reducer == 0) for_output_sums(output, buffer, put);
        if (first == 0) for_coordinate_sums(coordinates, buffer, put);
    }
};

// Starts the sums of the gradients of a reducer's layers over one tile, as soon as a worker has
// stored those of the layers' z.
template <int reducer, int layer>
__device__ __forceinline__ void add_layers(Sums<reducer>& chain, const Tile& tile,
                                           Exchange& exchange, int parity) {
    barrier_wait(&exchange.gradients_here[tile.buffer.number][layer], parity);
    wgmma_fence();
    if constexpr (layer == HIDDEN - 1)
        start_sums<width_after[layer]>(chain.output, tile.buffer,
                                       tile.shared.stored[tile.buffer.number][0]);
    start_gradients<layer>(chain, tile, tile.z_gradients<layer>());
    wgmma_commit();
    if constexpr (layer > Sums<reducer>::first)
        add_layers<reducer, layer - 1>(chain, tile, exchange, parity);
}

// Adds the errors of a tile that a worker has stored to a chain's totals.
__device__ __forceinline__ void add_errors(LaneTotals& totals,
                                           const float (*stored)[2 + CHANNELS]) {
    const float* of_points = stored[threadIdx.x % 128 / 4];
    const int lane = threadIdx.x % 4;
    totals.error += of_points[lane % 2];
    if (lane < CHANNELS) totals.output_bias += of_points[2 + lane];
}

// Copies the totals of a chain of a single tile, as its worker has stored them, by one warp.
__device__ __forceinline__ void copy_totals(ChainTotals& chain, const ChainTotals& stored) {
    const uint32_t* from = reinterpret_cast<const uint32_t*>(&stored);
    uint32_t* to = reinterpret_cast<uint32_t*>(&chain);
#pragma unroll
    for (int i = 0; i < int(sizeof(ChainTotals)) / 4; i += 32)
        if (i + threadIdx.x % 32 < sizeof(ChainTotals) / 4)
            to[i + threadIdx.x % 32] = from[i + threadIdx.x % 32];
}

// Sums over a unit's chains and warps in a fixed order; the totals of a chain without tiles are
// zero.
__device__ __forceinline__ void write_unit_totals(ChainTotals (&chains)[CHAINS], double2* partial) {
    double loss = 0.0, squared_error = 0.0;
    float output_bias[CHANNELS] = {};
    for (int chain = 0; chain < CHAINS; ++chain)
        for (int warp = 0; warp < 4; ++warp) {
            loss += chains[chain].losses[warp][0];
            squared_error += chains[chain].losses[warp][1];
            for (int channel = 0; channel < CHANNELS; ++channel)
                output_bias[channel] += chains[chain].output_bias[warp][channel];
        }
    const double count = double(PIXELS) * CHANNELS;
    *partial = make_double2(loss / count, squared_error / count);
    for (int channel = 0; channel < CHANNELS; ++channel)
        chains[0].output_bias[0][channel] = output_bias[channel];
}

// Writes the totals of a partial sum's units, by one warp; if a chain may have no tiles, the totals
// are set to zero afterwards. Not inlined, because the divisions in it would make the compiler
// assume that addresses of products differ between threads.
__device__ __noinline__ void write_totals(Exchange& exchange, const Arguments& arguments,
                                          int part) {
    const int lane = threadIdx.x % 32;
    __syncwarp();
    for (int i = lane; part + i * PARTIAL_SUMS < UNITS; i += 32)
        write_unit_totals(exchange.totals[i], arguments.loss_partials + part + i * PARTIAL_SUMS);
    __syncwarp();
    if (lane < CHANNELS) {
        float sum = 0.0f;
#pragma unroll
        for (int i = 0; i < UNITS_OF_SUM; ++i)
            if (part + i * PARTIAL_SUMS < UNITS) sum += exchange.totals[i][0].output_bias[0][lane];
        arguments.output_bias_partials[part * CHANNELS + lane] = sum;
    }
    __syncwarp();
    uint32_t* words = reinterpret_cast<uint32_t*>(exchange.totals);
    for (int i = lane; CHAINS > 1 && i < int(sizeof(exchange.totals)) / 4; i += 32) words[i] = 0;
    __syncwarp();
}

template <int reducer, typename Exchange>  // has `weights` only if units have several chains
__device__ __forceinline__ void sum_tiles(char* memory, Shared& shared, Exchange& exchange) {
    // by the shuffle, the compiler knows that this is the same for all lanes
    const int warp = __shfl_sync(~0u, threadIdx.x / 32 % 4, 0), lane = threadIdx.x % 32;
    const TileBuffer own_threads = {nullptr, BLOCK_TILES + reducer, warp, lane};
    LaneTotals totals;
    // `sums` is over the partial sum or, if units have several chains, over a unit
    Sums<reducer> chain, sums, vectors;
    Place place = {int(blockIdx.x), int(blockIdx.x)};
    int worker = 0, parity = 0;
    while (place.tile < TILES) {
        char* buffers = memory + WEIGHTS_BYTES + worker * BUFFERS * TILE_BYTES;
        PointsOf<true> none = {};
        const Tile tile = {none, buffers, memory, shared, buffer_of(buffers, worker), none};
        add_layers<reducer, Sums<reducer>::end - 1>(chain, tile, exchange, parity);
        Place next = place;
        next.advance();
        const bool is_sum_done = next.part != place.part;
        const bool is_chain_done =
            !LONG_CHAINS || is_sum_done || next.tile != place.tile + CHAIN_TILES;
        const int unit = CHAINS > 1 ? place.tile % UNITS : place.tile;
        const bool is_unit_done =
            CHAINS == 1 ? is_chain_done : is_sum_done || next.tile % UNITS != unit;
        if (reducer == 0) {
            ChainTotals& its =
                exchange
                    .totals[(unit - place.part) / PARTIAL_SUMS][place.tile / UNITS % UNIT_CHAINS];
            if (LONG_CHAINS) add_errors(totals, exchange.errors[worker]);
            if (LONG_CHAINS && is_chain_done) {
                store_totals(its, totals, warp);
                totals = {};
            }
            if (!LONG_CHAINS && warp == 0) copy_totals(its, exchange.tile_totals[worker]);
        }
        wgmma_wait<0>();
        chain.finish();
        barrier_arrive(&exchange.buffers_free[worker][reducer]);
        if (is_chain_done) {
            sums.add(chain);
            chain = {};
        }
        if constexpr (CHAINS > 1)
            if (is_unit_done) {
                sums.add_weights_to(exchange.weights[reducer]);
                vectors.add_vectors(sums);
                sums = {};
            }
        if (is_sum_done) {
            if constexpr (CHAINS > 1) {
                sums = vectors;
                sums.take_weights_of(exchange.weights[reducer]);
                vectors = {};
            }
            sums.write(shared.arguments, own_threads, place.part);
            sums = {};
            if (reducer == 0) {
                if (LONG_CHAINS) own_threads.sync();  // all warps have stored their totals
                if (warp == 0) write_totals(exchange, shared.arguments, place.part);
                if (LONG_CHAINS) own_threads.sync();
            }
        }
        place = next;
        if (++worker == BLOCK_TILES) {
            worker = 0;
            parity ^= 1;
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    narrow_batch(const Arguments* networks, const long long* sampled_step) {
    extern __shared__ __align__(128) char memory[];
    Exchange& exchange = reinterpret_cast<Exchange&>(*(&shared_of(memory) + 1));
    exchange.begin();
    const int batch = __ldcg(sampled_step) & 1;  // written by the kernel before the last
    Shared& shared = begin(memory, networks + batch * gridDim.y + blockIdx.y);
    const int warpgroup = own_warpgroup();
    Place place = {int(blockIdx.x), int(blockIdx.x)};
    for (int i = 0; i < warpgroup; ++i) place.advance();
    PointsOf<true> first = {warpgroup < BLOCK_TILES ? place.tile : TILES};
    if (first.index < TILES) first.fetch(shared.arguments, buffer_of(memory, warpgroup));
    wait_for_earlier_kernels();
    load_parameters(memory, shared);
    if (warpgroup < BLOCK_TILES) {
        work(memory, shared, exchange, warpgroup, place, first);
    } else if (warpgroup == BLOCK_TILES) {
        sum_tiles<0>(memory, shared, exchange);
    } else {
        if constexpr (SPLIT > 0) sum_tiles<1>(memory, shared, exchange);
    }
}
