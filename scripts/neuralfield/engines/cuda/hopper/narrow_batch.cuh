// The tiles of the partial sums that a block of narrow_batch.cu computes, the layers of each of its
// two reducers, and the memory in which workers store gradients for the reducers. Included after
// narrow_pass.cu.
#pragma once

constexpr int CHAIN_TILES = UNIT_CHAINS * UNITS;  // distance of a chain's tiles
constexpr int CHAINS = TILES < CHAIN_TILES ? (TILES + UNITS - 1) / UNITS : UNIT_CHAINS;
constexpr bool LONG_CHAINS = TILES > CHAIN_TILES;  // chains have several tiles
constexpr int UNITS_OF_SUM = (UNITS + PARTIAL_SUMS - 1) / PARTIAL_SUMS;
constexpr int PARTS = UNITS < PARTIAL_SUMS ? UNITS : PARTIAL_SUMS;
constexpr int THREADS = 128 * (BLOCK_TILES + 2);

// Returns the sums of the reducer with more of them, if the first reducer has layer `split` and
// those after it, and the second reducer those before it. SPLIT is the layer for which they are
// fewest.
__host__ __device__ constexpr int sums_of_larger(int split) {
    const int before = weight_sums_before(split), behind = weight_sums_before(HIDDEN) - before;
    return before > behind ? before : behind;
}

__host__ __device__ constexpr int best_split() {
    int best = 0;
    for (int split = 1; split < HIDDEN; ++split)
        if (sums_of_larger(split) <= sums_of_larger(best)) best = split;
    return best;
}

constexpr int SPLIT = best_split();
constexpr int SUMS_BEFORE = weight_sums_before(SPLIT);
constexpr int SUMS_BEHIND = weight_sums_before(HIDDEN) - SUMS_BEFORE;
constexpr int MOST_SUMS = SUMS_BEFORE > SUMS_BEHIND ? SUMS_BEFORE : SUMS_BEHIND;

// A tile of a partial sum.
struct Place {
    int tile, part;  // tile == TILES: no tile is left

    __device__ __forceinline__ void advance() {
        if (tile >= TILES) return;
        const int unit = CHAINS > 1 ? tile % UNITS : tile;
        const int next_chain = CHAINS > 1 ? tile / UNITS % UNIT_CHAINS + 1 : 1;
        if (LONG_CHAINS && tile + CHAIN_TILES < TILES) {
            tile += CHAIN_TILES;
        } else if (next_chain < CHAINS && next_chain * UNITS + unit < TILES) {
            tile = next_chain * UNITS + unit;
        } else if (unit + PARTIAL_SUMS < UNITS) {
            tile = unit + PARTIAL_SUMS;
        } else {
            part += gridDim.x;
            tile = part < PARTS ? part : TILES;
        }
    }

    // Advances by several tiles, which mostly belong to the same partial sum.
    __device__ __forceinline__ void advance(int tiles) {
        if (CHAINS == 1 && tile + tiles * PARTIAL_SUMS < UNITS) {
            tile += tiles * PARTIAL_SUMS;
        } else {
#pragma unroll
            for (int i = 0; i < tiles; ++i) advance();
        }
    }
};

// The totals of a chain: each warp's loss, squared error and summed gradients of the outputs.
struct ChainTotals {
    double losses[4][2];
    float output_bias[4][CHANNELS];
};

// The reducers' sums of weights' gradients over units with several chains. Each thread reads only
// its own.
template <bool has_chains>
struct WeightSums {
    float4 weights[2][MOST_SUMS / 4][128];
};

template <>
struct WeightSums<false> {};

// The shared memory of workers and reducers beside `Shared`.
struct Exchange : WeightSums<(CHAINS > 1)> {
    ChainTotals totals[UNITS_OF_SUM][CHAINS];
    ChainTotals tile_totals[BLOCK_TILES];  // for chains of one tile
    // for longer chains, of each two points of a tile: loss, squared error, gradients of outputs
    float errors[LONG_CHAINS ? BLOCK_TILES : 1][32][2 + CHANNELS];
    uint64_t gradients_here[BLOCK_TILES][HIDDEN];
    uint64_t buffers_free[BLOCK_TILES][2];

    // Sets the sums to zero, by all threads, and initialises the barriers. The warps of a worker
    // arrive at gradients_here when they have stored gradients, and the threads of a reducer at
    // buffers_free when they have read the worker's buffers.
    __device__ __forceinline__ void begin() {
        uint32_t* words = reinterpret_cast<uint32_t*>(this);
        const int count = reinterpret_cast<uint32_t*>(tile_totals) - words;
        for (int i = threadIdx.x; i < count; i += THREADS) words[i] = 0;
        if (threadIdx.x != 0) return;
        for (int worker = 0; worker < BLOCK_TILES; ++worker) {
            for (int layer = 0; layer < HIDDEN; ++layer)
                barrier_init(&gradients_here[worker][layer], 4);
            for (int reducer = 0; reducer < 2; ++reducer)
                barrier_init(&buffers_free[worker][reducer], 128);
        }
    }
};

static_assert(sizeof(Exchange) <= EXCHANGE_BYTES, "the host has to count more");
