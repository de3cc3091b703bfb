// The decoder of coded images; docs/format.md describes it. Reference: coding/kernels.py, whose
// integers these are.
//
// Constants: those of grids.cuh, and WAVE_STEP, MEAN_FACTORS (256 by the number of latents of each
// mean around a pixel), LARGEST_VALUE, VALUE_BITS, LARGEST_MEAN, LEAST_SCALE, LARGEST_SCALE, LANES
// (states of the range coder, at most 16).

#include "grids.cuh"

#define THREADS 256
#define WARP 32
#define ROW 20  // weights of a row of the rate model, and 0s: five words of 16 bytes
#define RING 16  // waves that are kept
#define PAD 4    // zeros above and below a wave; no neighbour is farther
#define KEPT 6   // limits of intervals that are computed before the stream is read

__device__ const int offsets[NEIGHBOURS][2] = OFFSETS;
__device__ const int around[AROUND_COUNT][3] = AROUND;
__device__ const int mean_factors[SURROUNDINGS] = MEAN_FACTORS;

struct CodedGrid {
    int rows, columns, largest;
    int start;  // of the first latent, in an array of all grids
};

__device__ __forceinline__ int clamped(int value) {
    return min(max(value, -LARGEST_VALUE), LARGEST_VALUE);
}

// A residual layer of the rate model; inputs have 0s at their end.
__device__ __forceinline__ void apply_residual(const int4* weights, const int* biases, int bits,
                                               const int (&x)[ROW], int (&h)[ROW]) {
#pragma unroll
    for (int o = 0; o < INPUTS; ++o) {
        int sum = biases[o];
#pragma unroll
        for (int i = 0; i < ROW / 4; ++i) {
            const int4 w = weights[o * (ROW / 4) + i];
            sum += w.x * x[4 * i] + w.y * x[4 * i + 1] + w.z * x[4 * i + 2] + w.w * x[4 * i + 3];
        }
        h[o] = clamped(max(clamped(sum >> bits), 0) + x[o]);
    }
}

// The distribution of a value, from -largest to largest.
struct Distribution {
    int mean, scale, largest;

    // The sum of the frequencies below a value, out of 2^16; `tables` are those of laplace.py.
    __device__ __forceinline__ int below(int value, const int* tables) const {
        if (value <= -largest) return 0;
        if (value > largest) return 1 << 16;
        const int x = (2 * value - 1) * 128 - mean;
        const unsigned distance = min(abs(x), 65535) * unsigned(tables[scale & 63]);
        const unsigned octaves = distance >> (11 + (scale >> 6)), whole = octaves >> 12;
        unsigned mass = unsigned(tables[octaves >> 6 & 63]) * tables[64 + (octaves & 63)] >> 15;
        mass = whole < 16 ? mass >> whole : 0;
        const int free = (1 << 16) - 2 * largest - 1, share = int(unsigned(free) * mass >> 16);
        return value + largest + (x <= 0 ? share : free - share);
    }
};

// The value that is most likely, minus 2, and the limits of the intervals from it on.
struct __align__(16) Expected {
    int first, limits[KEPT], unused;
};

// Finds the value whose interval contains `slot`, and the start and the end of that.
__device__ __forceinline__ int value_at(const Expected& expected, const Distribution* distribution,
                                        const int* tables, int slot, int& start, int& end) {
    int value = expected.first;
    start = expected.limits[0];
    end = expected.limits[KEPT - 1];
#pragma unroll
    for (int i = 1; i < KEPT - 1; ++i) {
        const bool is_above = slot >= expected.limits[i];
        start = is_above ? expected.limits[i] : start;
        end = is_above ? end : min(end, expected.limits[i]);
        value += is_above;
    }
    if (slot < start || slot >= end) {
        while (slot < start) {
            end = start;
            start = distribution->below(--value, tables);
        }
        while (slot >= end) {
            start = end;
            end = distribution->below(++value + 1, tables);
        }
    }
    return value;
}

// Decodes all grids, the coarsest first. `weights` are those of the three layers of the rate model,
// in rows of ROW. The stream is followed by WARP zeros. Recent waves are kept in `ring`, or if it
// is null, in shared memory. `cursor` has the number of symbols so far, that of bytes, and whether
// bytes are missing. One block: the time is that of one wave after another.
extern "C" __global__ void __launch_bounds__(THREADS)
    decode(const CodedGrid* __restrict__ grids, const int4* __restrict__ weights,
           const int* __restrict__ biases, const int* __restrict__ bits,
           const int* __restrict__ given_tables, const unsigned char* __restrict__ stream,
           long long stream_bytes, int* __restrict__ states, long long* cursor,
           signed char* latents, signed char* ring) {
    extern __shared__ signed char shared_ring[];
    __shared__ CodedGrid all_grids[GRIDS];
    __shared__ int4 layer_weights[(2 * INPUTS + 2) * (ROW / 4)];
    __shared__ int layer_biases[2 * INPUTS + 2], tables[128];
    __shared__ Expected expected[THREADS];
    __shared__ Distribution distributions[THREADS];
    __shared__ signed char values[THREADS];
    __shared__ bool is_cut;
    for (int i = threadIdx.x; i < (2 * INPUTS + 2) * (ROW / 4); i += THREADS)
        layer_weights[i] = weights[i];
    for (int i = threadIdx.x; i < 2 * INPUTS + 2; i += THREADS) layer_biases[i] = biases[i];
    for (int i = threadIdx.x; i < 128; i += THREADS) tables[i] = given_tables[i];
    if (threadIdx.x < GRIDS) all_grids[threadIdx.x] = grids[threadIdx.x];
    if (threadIdx.x == 0) is_cut = false;
    if (ring == nullptr) ring = shared_ring;
    __syncthreads();

    // of the warp that reads the stream
    const int lane = threadIdx.x;
    const unsigned before = (1u << lane) - 1;
    unsigned state = lane < LANES ? states[lane] : 0;
    long long symbols = cursor[0], bytes = cursor[1];

    for (int k = GRIDS - 1; k >= 0; --k) {
        const CodedGrid grid = all_grids[k];
        if (grid.largest == 0) continue;
        signed char* const own = latents + grid.start;
        const int high = grid.rows + 2 * PAD;
        for (int i = threadIdx.x; i < RING * high; i += THREADS) ring[i] = 0;
        __syncthreads();
        const int waves = grid.columns + WAVE_STEP * (grid.rows - 1);
        for (int wave = 0; wave < waves; ++wave) {
            const int first = max(0, (wave - grid.columns + WAVE_STEP) / WAVE_STEP);
            const int end = min(grid.rows, wave / WAVE_STEP + 1);
            signed char* const recent = ring + wave % RING * high + PAD;
            for (int y = first - PAD + int(threadIdx.x); y < end + PAD; y += THREADS)
                recent[y] = 0;
            for (int start = first; start < end; start += THREADS) {
                const int count = min(THREADS, end - start), y = start + threadIdx.x;
                if (threadIdx.x < count) {
                    int x[ROW] = {}, h[ROW] = {};
#pragma unroll
                    for (int i = 0; i < NEIGHBOURS; ++i) {
                        const int back = -(WAVE_STEP * offsets[i][0] + offsets[i][1]);
                        const int place = (wave - back + RING) % RING * high + PAD + y;
                        x[i] = ring[place + offsets[i][0]] << VALUE_BITS;
                    }
                    const int column = wave - WAVE_STEP * y;
#pragma unroll
                    for (int up = 1; up <= FEATURES; ++up) {
                        if (k + up >= GRIDS) break;
                        const CodedGrid& coarse = all_grids[k + up];
                        const int place = (y >> up) * coarse.columns + (column >> up);
                        x[NEIGHBOURS + up - 1] = latents[coarse.start + place] << VALUE_BITS;
                    }
                    apply_residual(layer_weights, layer_biases, bits[0], x, h);
                    apply_residual(layer_weights + INPUTS * (ROW / 4), layer_biases + INPUTS,
                                   bits[1], h, x);
                    int out[2];
#pragma unroll
                    for (int o = 0; o < 2; ++o) {
                        int sum = layer_biases[2 * INPUTS + o];
                        const int* row = (const int*)layer_weights + (2 * INPUTS + o) * ROW;
#pragma unroll
                        for (int i = 0; i < INPUTS; ++i) sum += row[i] * x[i];
                        out[o] = clamped(sum >> bits[2]);
                    }
                    const int mean = min(max(out[0], -LARGEST_MEAN), LARGEST_MEAN);
                    const int scale = min(max(out[1] >> 2, LEAST_SCALE), LARGEST_SCALE);
                    const Distribution own_distribution = {mean, scale, grid.largest};
                    const int likely = min(max((mean + 128) >> 8, -grid.largest), grid.largest);
                    Expected mine;
                    mine.first = likely - (KEPT - 1) / 2;
#pragma unroll
                    for (int i = 0; i < KEPT; ++i)
                        mine.limits[i] = own_distribution.below(mine.first + i, tables);
                    expected[threadIdx.x] = mine;
                    distributions[threadIdx.x] = own_distribution;
                }
                __syncthreads();
                if (threadIdx.x < WARP && bytes <= stream_bytes) {
                    // symbol i belongs to lane i mod LANES, and reads its bytes after those before
                    const int skipped = int(symbols & (LANES - 1));
                    const int rounds = (skipped + count + LANES - 1) / LANES;
                    int j = lane - skipped;
                    Expected next = expected[min(max(j, 0), count - 1)];
                    const unsigned char* at = stream + bytes;
                    for (int round = 0; round < rounds; ++round, j += LANES) {
                        const Expected mine = next;
                        next = expected[min(j + LANES, count - 1)];
                        const unsigned byte = at[lane];  // no round reads more than WARP
                        int needed = 0;
                        if (lane < LANES && j >= 0 && j < count) {
                            int low, high;
                            const int slot = state & 65535;
                            values[j] = value_at(mine, distributions + j, tables, slot, low, high);
                            state = (high - low) * (state >> 16) + slot - low;
                            needed = state < 1u << 15 ? 2 : state < 1u << 23;
                        }
                        const unsigned some = __ballot_sync(~0u, needed > 0);
                        const unsigned more = __ballot_sync(~0u, needed > 1);
                        const int place = __popc(some & before) + __popc(more & before);
                        const unsigned one = __shfl_sync(~0u, byte, place % WARP);
                        const unsigned two = __shfl_sync(~0u, byte, (place + 1) % WARP);
                        if (needed > 0) state = state << 8 | one;
                        if (needed > 1) state = state << 8 | two;
                        at += __popc(some) + __popc(more);
                        if (at > stream + stream_bytes) break;
                    }
                    bytes = at - stream;
                    symbols += count;
                    if (bytes > stream_bytes && lane == 0) is_cut = true;
                }
                __syncthreads();
                if (threadIdx.x < count) {
                    const int value = values[threadIdx.x];
                    recent[y] = value;
                    own[(long long)y * grid.columns + wave - WAVE_STEP * y] = value;
                }
            }
            __syncthreads();
            if (is_cut) break;
        }
        if (is_cut) break;
    }
    if (lane < LANES) states[lane] = state;
    if (threadIdx.x == 0) {
        cursor[0] = symbols;
        cursor[1] = min(bytes, stream_bytes);
        cursor[2] = is_cut;
    }
}

// Makes the planes of a grid: its latents, and the planes of the next grid, enlarged by 2.
extern "C" __global__ void __launch_bounds__(THREADS)
    enlarge(const signed char* __restrict__ latents, const short* __restrict__ coarse, int rows,
            int columns, const int* __restrict__ taps, int bits, short* __restrict__ planes,
            int high, int wide) {
    const long long place = (long long)blockIdx.x * THREADS + threadIdx.x;
    const long long count = (long long)high * wide;
    if (place >= count) return;
    if (blockIdx.y == 0) {
        planes[place] = latents[place] << VALUE_BITS;
        return;
    }
    const int y = int(place / wide), x = int(place - (long long)y * wide);
    const short* const plane = coarse + (blockIdx.y - 1) * (long long)rows * columns;
    const int half = (1 << bits) >> 1;
    int total = half;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const int column = min(max((x >> 1) - 2 + (x & 1) + i, 0), columns - 1);
        int sum = half;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const int row = min(max((y >> 1) - 2 + (y & 1) + j, 0), rows - 1);
            sum += taps[y & 1 ? 3 - j : j] * plane[(long long)row * columns + column];
        }
        total += taps[x & 1 ? 3 - i : i] * clamped(sum >> bits);
    }
    planes[blockIdx.y * count + place] = clamped(total >> bits);
}

// Computes the levels of pixels. A layer's weights are followed by its biases.
extern "C" __global__ void __launch_bounds__(THREADS)
    synthesise(const signed char* __restrict__ latents, const short* __restrict__ planes,
               const int* __restrict__ hidden, const int* __restrict__ output, int hidden_bits,
               int output_bits, unsigned char* __restrict__ levels, int rows, int columns) {
    const long long place = (long long)blockIdx.x * THREADS + threadIdx.x;
    const long long count = (long long)rows * columns;
    if (place >= count) return;
    const int y = int(place / columns), x = int(place - (long long)y * columns);
    int inputs[PIXEL_INPUTS];
#pragma unroll
    for (int k = 0; k < GRIDS; ++k) inputs[k] = planes[k * count + place];
#pragma unroll
    for (int i = 0; i < SURROUNDINGS; ++i) inputs[GRIDS + i] = 0;
#pragma unroll
    for (int n = 0; n < AROUND_COUNT; ++n) {
        const int row = min(max(y + around[n][1], 0), rows - 1);
        const int column = min(max(x + around[n][2], 0), columns - 1);
        const int mean = around[n][0];
        inputs[GRIDS + mean] += latents[(long long)row * columns + column] * mean_factors[mean];
    }
    int sums[CHANNELS];
#pragma unroll
    for (int c = 0; c < CHANNELS; ++c) {
        const int* const row = output + c * (HIDDEN + PIXEL_INPUTS);
        sums[c] = output[CHANNELS * (HIDDEN + PIXEL_INPUTS) + c];
#pragma unroll
        for (int i = 0; i < PIXEL_INPUTS; ++i) sums[c] += row[HIDDEN + i] * inputs[i];
    }
    for (int o = 0; o < HIDDEN; ++o) {
        int sum = hidden[HIDDEN * PIXEL_INPUTS + o];
#pragma unroll
        for (int i = 0; i < PIXEL_INPUTS; ++i) sum += hidden[o * PIXEL_INPUTS + i] * inputs[i];
        const int value = max(clamped(sum >> hidden_bits), 0);
#pragma unroll
        for (int c = 0; c < CHANNELS; ++c)
            sums[c] += output[c * (HIDDEN + PIXEL_INPUTS) + o] * value;
    }
#pragma unroll
    for (int c = 0; c < CHANNELS; ++c) {
        const int level = (clamped(sums[c] >> output_bits) * 255 + (1 << 13)) >> 14;
        levels[place * CHANNELS + c] = min(max(level, 0), 255);
    }
}
