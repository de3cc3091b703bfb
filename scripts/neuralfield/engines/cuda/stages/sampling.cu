// Samples the pixels of a step and the points within them. Reference implementations:
// nn/sampling.py (Batches, Footprint), nn/blocks.py, images/coordinates.py,
// fields/coordinate_network.py (CornerBias).
//
// Constants: those of the batch, ENCODING, WIDTH, HEIGHT, SAMPLING and its possible values
// (ALL_IN_ORDER, ONE_OF_EACH_BLOCK, BY_DENSITY), those of blocks.cuh with ONE_OF_EACH_BLOCK,
// TILE_ROWS, TILES_PER_BLOCK, THREADS.
//
// A thread block samples the pixels of TILES_PER_BLOCK tiles, one per thread, and then their
// points: a thread samples two neighbouring points of a group, because they share random words.
// Every operation is rounded separately, as in array libraries, because contracted multiply-adds
// would change the last bits.
#include "../philox.cuh"

#if SAMPLING == ONE_OF_EACH_BLOCK
#include "blocks.cuh"
#endif

#define PIXEL_COUNT (WIDTH * HEIGHT)
#define BLOCK_PIXELS (TILES_PER_BLOCK * TILE_PIXELS)
#define PAIRS_0 ((GROUP_0_POINTS + 1) / 2)  // of a pixel's first group of points; PAIRS: of both
#define PAIRS (PAIRS_0 + (POINTS - GROUP_0_POINTS + 1) / 2)
#define PIXELS_AT_ONCE (THREADS / PAIRS)

// Returns a / count; for a power of two, a product gives the same bits faster.
template <int count>
__device__ __forceinline__ double quotient(double a) {
    return (count & (count - 1)) == 0 ? __dmul_rn(a, 1.0 / count) : __ddiv_rn(a, double(count));
}

__device__ int pixel_of_slot(int slot, long long step, const double* __restrict__ cumulative,
                             const int* __restrict__ part_starts, unsigned long long seed) {
#if SAMPLING == ALL_IN_ORDER
    return slot;
#elif SAMPLING == ONE_OF_EACH_BLOCK
    return Block::of_slot(slot).pixel(slot, step, seed);
#else
    // one sample from each of PIXELS equal parts of the density
    Words words = philox({(unsigned int)slot, 0u, (unsigned int)step, STREAM_DENSITY}, seed);
    double sought = quotient<PIXELS>(__dadd_rn(double(slot), double(uniform(words.w0))));
    int low = part_starts[slot], high = part_starts[slot + 1];
    // the first place whose cumulative sum exceeds `sought`
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

// Returns the centre of pixel `index` of `count` along a side of length 2 * half_side.
template <int count>
__device__ __forceinline__ float axis_centre(int index, double half_side) {
    double fraction = quotient<count>(double(index) + 0.5);
    return float(__dmul_rn(2.0 * fraction - 1.0, half_side));
}

// Returns u or v of the original network's inputs.
__device__ __forceinline__ float corner_input(float coordinate, int side) {
    const int longer = WIDTH > HEIGHT ? WIDTH : HEIGHT;
    float index = __fadd_rn(__fmul_rn(coordinate, float(longer)), float(side - 1)) * 0.5f;
    return __fdiv_rn(index, float(side > 1 ? side - 1 : 1));
}

// A sampled pixel of the batch.
struct Pixel {
    int index;
    float2 centre;

    __device__ __forceinline__ static Pixel of(int index) {
        const double longer = WIDTH > HEIGHT ? WIDTH : HEIGHT;
        return {index, make_float2(axis_centre<WIDTH>(index % WIDTH, double(WIDTH) / longer),
                                   axis_centre<HEIGHT>(index / WIDTH, double(HEIGHT) / longer))};
    }
};

// The points of a thread: two neighbours of a group, or only the group's last point.
struct PointPair {
    int number, group;
    int first, group_points;  // the first point's number in the group, and how many the group has

    __device__ __forceinline__ static PointPair of(int number) {
        const int group = number >= PAIRS_0;
        return {number, group, 2 * (number - group * PAIRS_0),
                group ? POINTS - GROUP_0_POINTS : GROUP_0_POINTS};
    }

    __device__ __forceinline__ int count() const { return min(group_points - first, 2); }
};

#if FOOTPRINT
// Returns a number of points as a fraction of a group's points.
__device__ __forceinline__ double share_of_group(double points, int group) {
    return group ? quotient<POINTS - GROUP_0_POINTS>(points) : quotient<GROUP_0_POINTS>(points);
}

// Finds the rows of the points of `pair`. The row of point k is the number of the group's point
// with the k-th smallest key. `group_first` is the index of the group's first point in the thread
// block.
__device__ __forceinline__ void find_rows(int (&rows)[2], const unsigned int (&keys)[2],
                                          const PointPair& pair, int group_first, bool is_valid) {
    if constexpr (GROUP_0_POINTS <= 2) {
        rows[0] = pair.group_points > 1 && keys[1] < keys[0];
        rows[1] = 1 - rows[0];
    } else {
        __shared__ unsigned short all_keys[2 * THREADS];
        __shared__ unsigned char row_of[2 * THREADS];
        const int own = group_first + pair.first, count = is_valid ? pair.count() : 0;
#pragma unroll
        for (int i = 0; i < 2; ++i)
            if (i < count) all_keys[own + i] = keys[i];
        __syncthreads();
        int smaller[2] = {};
#pragma unroll 1
        for (int other = 0; other < pair.group_points && is_valid; ++other) {
            const unsigned int its = all_keys[group_first + other];
#pragma unroll
            for (int i = 0; i < 2; ++i)
                smaller[i] += its < keys[i] || (its == keys[i] && other < pair.first + i);
        }
#pragma unroll
        for (int i = 0; i < 2; ++i)
            if (i < count) row_of[group_first + smaller[i]] = pair.first + i;
        __syncthreads();
#pragma unroll
        for (int i = 0; i < 2; ++i)
            if (i < count) rows[i] = row_of[own + i];
    }
}

// Each group of points is a Latin hypercube: point k is in column k. All threads of a block have to
// call this together.
__device__ __forceinline__ void spread(float2 (&points)[2], const Pixel& pixel,
                                       const PointPair& pair, int group_first, bool is_valid,
                                       long long step, unsigned long long seed) {
    const Words words = philox(
        {(unsigned int)pixel.index, (unsigned int)pair.number, (unsigned int)step, STREAM_JITTER},
        seed);
    const unsigned int across[2] = {words.w0, words.w2}, down[2] = {words.w1, words.w3};
    unsigned int keys[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) keys[i] = (across[i] & 255u) << 8 | (down[i] & 255u);
    int rows[2] = {};
    find_rows(rows, keys, pair, group_first, is_valid);
    const double side = 2.0 / (WIDTH > HEIGHT ? WIDTH : HEIGHT);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        double column_place =
            share_of_group(double(pair.first + i) + uniform(across[i]), pair.group);
        double row_place = share_of_group(double(rows[i]) + uniform(down[i]), pair.group);
        points[i].x =
            float(__dadd_rn(double(pixel.centre.x), __dmul_rn(__dsub_rn(column_place, 0.5), side)));
        points[i].y =
            float(__dadd_rn(double(pixel.centre.y), __dmul_rn(__dsub_rn(row_place, 0.5), side)));
    }
}
#endif

// Samples the points of a block's pixels, and writes zeros to rows without a point.
__device__ __forceinline__ void sample_points(const Pixel* pixels, int first_tile, long long step,
                                              float2* __restrict__ inputs,
                                              unsigned long long seed) {
    const int local = threadIdx.x / PAIRS;
    const PointPair pair = PointPair::of(threadIdx.x % PAIRS);
    const int first_point = pair.group * GROUP_0_POINTS;
#pragma unroll 1
    for (int first = 0; first < BLOCK_PIXELS; first += PIXELS_AT_ONCE) {
        const int slot = first + local, tile = first_tile + slot / TILE_PIXELS;
        const bool has_rows = local < PIXELS_AT_ONCE && slot < BLOCK_PIXELS && tile < TILES;
        const bool is_valid = has_rows && first_tile * TILE_PIXELS + slot < PIXELS;
        const Pixel pixel = is_valid ? pixels[slot] : Pixel();
        float2 points[2] = {pixel.centre, pixel.centre};
#if FOOTPRINT
        spread(points, pixel, pair, local * POINTS + first_point, is_valid, step, seed);
#endif
        if (!has_rows) continue;
        float2* rows = inputs + (long long)tile * TILE_ROWS + slot % TILE_PIXELS * POINTS;
        for (int i = 0; i < pair.count(); ++i) {
            float2 point = points[i];
#if ENCODING == CORNERS
            point = make_float2(corner_input(point.x, WIDTH), corner_input(point.y, HEIGHT));
#endif
            rows[first_point + pair.first + i] = is_valid ? point : make_float2(0.0f, 0.0f);
        }
    }
    constexpr int used = TILE_PIXELS * POINTS;
    if constexpr (used < TILE_ROWS)
        for (int i = threadIdx.x; i < TILES_PER_BLOCK * TILE_ROWS; i += THREADS)
            if (i % TILE_ROWS >= used && first_tile + i / TILE_ROWS < TILES)
                inputs[(long long)first_tile * TILE_ROWS + i] = make_float2(0.0f, 0.0f);
}

// Fills the rows of a block's tiles, for the step after `step_taken` finished ones.
extern "C" __global__ void __launch_bounds__(THREADS)
    sample(const long long* __restrict__ step_taken, const double* __restrict__ cumulative,
           const int* __restrict__ part_starts, const float* __restrict__ values,
           float2* __restrict__ inputs, float* __restrict__ targets, float* __restrict__ weights,
           unsigned long long seed) {
    __shared__ Pixel pixels[BLOCK_PIXELS];
    const long long step = *step_taken;
    const int first_tile = blockIdx.x * TILES_PER_BLOCK, first_slot = first_tile * TILE_PIXELS;
    for (int i = threadIdx.x; i < BLOCK_PIXELS; i += THREADS) {
        const int slot = first_slot + i;
        if (slot >= PIXELS) break;
        const int pixel = pixel_of_slot(slot, step, cumulative, part_starts, seed);
        pixels[i] = Pixel::of(pixel);
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
    sample_points(pixels, first_tile, step, inputs, seed);
}
