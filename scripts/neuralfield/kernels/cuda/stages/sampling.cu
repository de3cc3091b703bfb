// Which pixels a step looks at, and at which points of them. Twins: sampling.py (Batches,
// Footprint), coordinates.py, fields/network.py (CornerBias).
//
// Constants: those of the batch, ENCODING, WIDTH, HEIGHT, SAMPLING (0 all pixels in order, 1 random
// order, 2 by density), HALF_BITS (of `permuted`), TILE_ROWS, TILES_PER_BLOCK, TILES_AT_ONCE.
//
// A block draws the pixels of TILES_PER_BLOCK tiles, a thread each, and then the points of
// TILES_AT_ONCE of them at once, a thread a row. Arithmetic is rounded step by step, as array
// libraries do it: contracted multiply-adds would change last bits.
#include "random_order.cuh"

#define PIXEL_COUNT (WIDTH * HEIGHT)
#define THREADS (TILE_ROWS * TILES_AT_ONCE)
#define STREAM_JITTER 1u
#define STREAM_DENSITY 2u

// a / count; by a power of two a product gives the same bits sooner.
template <int count>
__device__ __forceinline__ double quotient(double a) {
    return (count & (count - 1)) == 0 ? __dmul_rn(a, 1.0 / count) : __ddiv_rn(a, double(count));
}

__device__ int pixel_of_slot(int slot, long long step, const double* __restrict__ cumulative,
                             const int* __restrict__ part_starts, unsigned long long seed) {
#if SAMPLING == 0
    return slot;
#elif SAMPLING == 1
    return sample_in_random_order(slot, step, PIXELS, PIXEL_COUNT, HALF_BITS, seed);
#else
    // one draw from each of PIXELS equal parts of the density
    Words words = philox({(unsigned int)slot, 0u, (unsigned int)step, STREAM_DENSITY}, seed);
    double sought = quotient<PIXELS>(__dadd_rn(double(slot), double(uniform(words.w0))));
    int low = part_starts[slot], high = part_starts[slot + 1];
    // the first place whose sum is above what is sought
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (cumulative[middle] <= sought)
            low = middle + 1;
        else
            high = middle;
    }
    return min(low, PIXEL_COUNT - 1);
#endif
}

// The centre of pixel `index` of `count` along a side of half this length.
template <int count>
__device__ __forceinline__ float axis_centre(int index, double half_side) {
    double fraction = quotient<count>(double(index) + 0.5);
    return float(__dmul_rn(2.0 * fraction - 1.0, half_side));
}

#if FOOTPRINT
// Of a group's points.
__device__ __forceinline__ double share_of_group(double points, int group) {
    return group ? quotient<POINTS - GROUP_0_POINTS>(points) : quotient<GROUP_0_POINTS>(points);
}
#endif

// u or v of the original network's inputs.
__device__ __forceinline__ float corner_input(float coordinate, int side) {
    const int longer = WIDTH > HEIGHT ? WIDTH : HEIGHT;
    float index = __fadd_rn(__fmul_rn(coordinate, float(longer)), float(side - 1)) * 0.5f;
    return __fdiv_rn(index, float(side > 1 ? side - 1 : 1));
}

// A row of a tile whose slots have these pixels. All threads of a block come here together.
__device__ __forceinline__ void sample_row(int tile, const int* pixels, long long step,
                                           float2* __restrict__ inputs, unsigned long long seed) {
    const int row = threadIdx.x % TILE_ROWS, slot = row / POINTS, point = row % POINTS;
    const bool is_valid = tile < TILES && slot < TILE_PIXELS && tile * TILE_PIXELS + slot < PIXELS;
    const int pixel = is_valid ? pixels[slot] : 0;
    const double longer = WIDTH > HEIGHT ? WIDTH : HEIGHT;
    float x = axis_centre<WIDTH>(pixel % WIDTH, double(WIDTH) / longer);
    float y = axis_centre<HEIGHT>(pixel / WIDTH, double(HEIGHT) / longer);

#if FOOTPRINT
    // Each group of points is a Latin hypercube: point k is in column k, and in the row that the
    // k-th smallest key belongs to.
    __shared__ unsigned short keys[TILES_AT_ONCE][TILE_ROWS];
    __shared__ unsigned char row_of[TILES_AT_ONCE][TILE_ROWS];
    const int local_tile = threadIdx.x / TILE_ROWS, group = point >= GROUP_0_POINTS;
    const int member = group ? point - GROUP_0_POINTS : point;
    const int members = group ? POINTS - GROUP_0_POINTS : GROUP_0_POINTS;
    const int first = row - member;  // row of the group's first point
    const unsigned int index = group * ((GROUP_0_POINTS + 1) / 2) + member / 2;
    Words words = philox({(unsigned int)pixel, index, (unsigned int)step, STREAM_JITTER}, seed);
    unsigned int word0 = member % 2 ? words.w2 : words.w0;
    unsigned int word1 = member % 2 ? words.w3 : words.w1;
    const unsigned short key = ((word0 & 255u) << 8) | (word1 & 255u);
    keys[local_tile][row] = key;
    __syncthreads();
    if (is_valid) {
        int smaller = 0;
        for (int other = 0; other < members; ++other) {
            unsigned short its = keys[local_tile][first + other];
            smaller += its < key || (its == key && other < member);
        }
        row_of[local_tile][first + smaller] = member;
    }
    __syncthreads();
    if (is_valid) {
        const double side = 2.0 / longer;
        double column_place = share_of_group(double(member) + uniform(word0), group);
        double row_place = share_of_group(double(row_of[local_tile][row]) + uniform(word1), group);
        x = float(__dadd_rn(double(x), __dmul_rn(__dsub_rn(column_place, 0.5), side)));
        y = float(__dadd_rn(double(y), __dmul_rn(__dsub_rn(row_place, 0.5), side)));
    }
#endif
#if ENCODING == 1
    x = corner_input(x, WIDTH);
    y = corner_input(y, HEIGHT);
#endif
    if (tile < TILES)
        inputs[(long long)tile * TILE_ROWS + row] =
            is_valid ? make_float2(x, y) : make_float2(0.0f, 0.0f);
}

// The rows of a block's tiles, for the step after `step` finished ones.
__device__ __forceinline__ void sample_rows(long long step, const double* __restrict__ cumulative,
                                            const int* __restrict__ part_starts,
                                            const float* __restrict__ values,
                                            float2* __restrict__ inputs,
                                            float* __restrict__ targets,
                                            float* __restrict__ weights, unsigned long long seed) {
    __shared__ int pixel_of[TILES_PER_BLOCK * TILE_PIXELS];
    const int first_tile = blockIdx.x * TILES_PER_BLOCK, first_slot = first_tile * TILE_PIXELS;
    for (int i = threadIdx.x; i < TILES_PER_BLOCK * TILE_PIXELS; i += THREADS) {
        const int slot = first_slot + i;
        if (slot >= PIXELS) break;
        const int pixel = pixel_of_slot(slot, step, cumulative, part_starts, seed);
        pixel_of[i] = pixel;
        for (int channel = 0; channel < CHANNELS; ++channel)
            targets[(long long)slot * CHANNELS + channel] =
                values[(long long)pixel * CHANNELS + channel];
#if WEIGHTED
        double before = pixel > 0 ? cumulative[pixel - 1] : 0.0;
        double share = __dsub_rn(cumulative[pixel], before);
        weights[slot] = float(__ddiv_rn(1.0, __dmul_rn(double(PIXEL_COUNT), share)));
#endif
    }
    __syncthreads();
    for (int i = threadIdx.x / TILE_ROWS; i < TILES_PER_BLOCK; i += TILES_AT_ONCE)
        sample_row(first_tile + i, pixel_of + i * TILE_PIXELS, step, inputs, seed);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    sample(const long long* __restrict__ step_taken, const double* __restrict__ cumulative,
           const int* __restrict__ part_starts, const float* __restrict__ values,
           float2* __restrict__ inputs, float* __restrict__ targets, float* __restrict__ weights,
           unsigned long long seed) {
    sample_rows(*step_taken, cumulative, part_starts, values, inputs, targets, weights, seed);
}
