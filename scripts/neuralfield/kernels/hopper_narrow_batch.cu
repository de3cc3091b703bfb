// The pass hopper-narrow for several networks of one shape in one launch, with the sums that each
// has alone; twin: kernels/layers.py.
//
// Alone, tile t belongs to block t % UNITS; its warpgroups sum over chains of tiles, the block over
// its chains, and the update over every STRANDS-th block. The tiles and sums of these are a strand.
// Here a warpgroup has a strand to itself, and goes through its tiles one after another: it waits
// for nobody, weights are brought once, and STRANDS parts are left to be added up.
//
// Grid: (STRANDS / BLOCK_TILES, networks).
//
// Constants: UNITS (blocks alone), UNIT_CHAINS (warpgroups of such a block), STRANDS, STRAND_BYTES
// (which the host counts on for each warpgroup), and those of hopper_narrow.cu.
#include "hopper_narrow.cu"

constexpr int WEIGHT_SUMS = weight_sums_before(HIDDEN);
constexpr int CHAIN_TILES = UNIT_CHAINS * UNITS;  // from one tile of a chain to the next
constexpr int CHAINS = TILES < CHAIN_TILES ? (TILES + UNITS - 1) / UNITS : UNIT_CHAINS;
constexpr int STRAND_UNITS = (UNITS + STRANDS - 1) / STRANDS;

// The tile after one in its strand; TILES: none.
__device__ __forceinline__ int tile_after(int tile) {
    const int unit = tile % UNITS;
    if (tile + CHAIN_TILES < TILES) return tile + CHAIN_TILES;
    const int next_chain = tile / UNITS % UNIT_CHAINS + 1;
    if (next_chain < CHAINS && next_chain * UNITS + unit < TILES)
        return next_chain * UNITS + unit;
    return unit + STRANDS < UNITS ? unit + STRANDS : TILES;
}

// Of a chain: a place for each warp's loss, squared error and slopes of the outputs.
struct ChainTotals {
    double losses[4][2];
    float output_bias[4][CHANNELS];
};

// Sums of weights' gradients over units with several chains: no thread looks at another's.
template <bool has_chains>
struct WeightSums {
    float4 weights[WEIGHT_SUMS / 4][128];
};

template <>
struct WeightSums<false> {};

// What a warpgroup has in shared memory beside `Shared`.
struct Strand : WeightSums<(CHAINS > 1)> {
    ChainTotals totals[STRAND_UNITS][CHAINS];
};

static_assert(sizeof(Strand) <= STRAND_BYTES, "the host has to count more");

// Gradients over chains or units, in their order.
struct Sums {
    float weights[WEIGHT_SUMS] = {};
    float biases[HIDDEN][4] = {}, output[4] = {}, coordinates[4] = {};

    template <typename Others>
    __device__ __forceinline__ void add_vectors(const Others& others) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
#pragma unroll
            for (int layer = 0; layer < HIDDEN; ++layer)
                biases[layer][i] += others.biases[layer][i];
            output[i] += others.output[i];
            coordinates[i] += others.coordinates[i];
        }
    }

    __device__ __forceinline__ void add(const Gradients& chain) {
#pragma unroll
        for (int i = 0; i < WEIGHT_SUMS; ++i) weights[i] += chain.weights[i];
        add_vectors(chain);
    }
};

// A unit's sums are added to those of its strand.
template <typename Weights>
__device__ __forceinline__ void add_unit(Weights& strand, Sums& vectors, const Sums& unit) {
    const int thread = threadIdx.x % 128;
#pragma unroll
    for (int i = 0; i < WEIGHT_SUMS / 4; ++i) {
        float4 sum = strand.weights[i][thread];
        sum.x += unit.weights[4 * i];
        sum.y += unit.weights[4 * i + 1];
        sum.z += unit.weights[4 * i + 2];
        sum.w += unit.weights[4 * i + 3];
        strand.weights[i][thread] = sum;
    }
    vectors.add_vectors(unit);
}

template <typename Weights>
__device__ __forceinline__ void load_weights(Sums& sums, const Weights& strand) {
#pragma unroll
    for (int i = 0; i < WEIGHT_SUMS / 4; ++i) {
        float4 sum = strand.weights[i][threadIdx.x % 128];
        sums.weights[4 * i] = sum.x;
        sums.weights[4 * i + 1] = sum.y;
        sums.weights[4 * i + 2] = sum.z;
        sums.weights[4 * i + 3] = sum.w;
    }
}

// Sums over a unit's chains and warps, in their order; a chain without tiles has left zeros.
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

template <int layer = first_product>
__device__ __forceinline__ void write_weights(const Sums& sums, const Arguments& arguments,
                                              int part) {
    write_part<layer>(sums.weights + weight_sums_before(layer), sums.biases[layer], arguments,
                      part);
    if constexpr (layer + 1 < HIDDEN) write_weights<layer + 1>(sums, arguments, part);
}

extern "C" __global__ void __launch_bounds__(CONSUMERS, 1)
    hopper_narrow_batch(const Arguments* members) {
    extern __shared__ __align__(128) char memory[];
    Shared& shared = begin(memory, members + blockIdx.y);
    const Arguments& arguments = shared.arguments;
    const int warpgroup = own_warpgroup(), thread = threadIdx.x % 128;
    char* own_tables = memory + WEIGHTS_BYTES + warpgroup * TABLES * TILE_BYTES;
    const Table table = table_of(own_tables, warpgroup);
    Strand& strand = reinterpret_cast<Strand*>(&shared + 1)[warpgroup];
    const int part = blockIdx.x * BLOCK_TILES + warpgroup;
    if (part >= UNITS) return;

    for (int i = thread; i < int(sizeof(Strand)) / 4; i += 128)
        reinterpret_cast<uint32_t*>(&strand)[i] = 0;
    table.sync();
    Totals totals;
    Gradients gradients;
    Sums sums, vectors;  // of the strand or, where units have several chains, of a unit
    Points next = {part};
    next.fetch(arguments, table);
    while (next.index < TILES) {
        Tile tile = {next, own_tables, memory, shared, table, next};
        next.index = tile_after(tile.index);
        work_on(tile, gradients, totals);
        const bool is_chain_done =
            TILES <= CHAIN_TILES || next.index >= TILES || next.index != tile.index + CHAIN_TILES;
        const int unit = tile.index % UNITS;
        if (is_chain_done) {
            ChainTotals(&chains)[CHAINS] = strand.totals[(unit - part) / STRANDS];
            note_totals(chains[tile.index / UNITS % UNIT_CHAINS], totals, table.warp);
            totals = {};
        }
        wgmma_wait<0>();
        gradients.finish();
        if (!is_chain_done) continue;
        sums.add(gradients);
        gradients = {};
        if constexpr (CHAINS > 1) {
            if (next.index >= TILES || next.index % UNITS != unit) {
                add_unit(strand, vectors, sums);
                sums = {};
            }
        }
    }
    if constexpr (CHAINS > 1) {
        sums = vectors;
        load_weights(sums, strand);
    }
    write_weights(sums, arguments, part);
    float (*own_vectors)[WIDEST] = shared.vectors[warpgroup];
    put_vectors<LAST_WIDTH>(sums.output, own_vectors, CHANNELS, table);
    put_vectors<width_after[0]>(sums.coordinates, own_vectors + CHANNELS, COORDINATE_VECTORS,
                                table);
    table.sync();
    for (int i = thread; i < VECTORS * WIDEST; i += 128)
        arguments.vector_partials[size_t(part) * VECTORS * WIDEST + place_of_vector(i)] =
            (&own_vectors[0][0])[i];
    for (int i = thread; part + i * STRANDS < UNITS; i += 128)
        write_unit_totals(strand.totals[i], arguments.loss_partials + part + i * STRANDS);
    table.sync();
    if (thread < CHANNELS) {
        float sum = 0.0f;
        for (int i = 0; part + i * STRANDS < UNITS; ++i)
            sum += strand.totals[i][0].output_bias[0][thread];
        arguments.output_bias_partials[part * CHANNELS + thread] = sum;
    }
}
