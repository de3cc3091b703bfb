// A convolution with its pooling and relu, forward and back. Reference implementations:
// nn/convolution.py, nn/pooling.py, nn/ops.py (relu).
//
// Images lie channel by channel. A block has some images, or a band of rows of one, in shared
// memory; a thread keeps a small tile of sums in registers. Sizes of tiles are in
// convolution_plan.py. All sums have an order of their own: nothing is added up by whoever comes
// first.
//
// Constants: those of convolution.cuh, and for each kernel with its prefix
//   FORWARD_ PICTURES, BAND (rows of windows), STAGED (channels in), GROUP (channels out of a
//   thread), GROUPS (of a block), TILE (windows of a thread), SPLIT (threads that share a tile's
//   channels in), STRIDE (of a line), THREADS
//   BACKWARD_ PICTURES, BAND (lines of the image), STAGED (channels out), GROUP (channels in of
//   a thread), GROUPS, TILE (columns), TILES, SPLIT (of the channels out), ROWS (of windows),
//   STRIDE, THREADS
//   GRADIENT_ PICTURES (at a time), BAND (rows of windows), BANDS, STAGED (channels in), GROUP
//   (channels out of a thread), GROUPS, TILE (places in a line), TILES, SPLIT (of the lines of all
//   images), PICTURE_LINES, PICTURE_STRIDE, SLOPE_STRIDE, THREADS
//
// Strides of lines are odd multiples of 16 bytes where neighbouring threads read neighbouring
// lines: they meet in no bank of shared memory.

#include "convolution.cuh"

// Adds up what the threads of a split have, in their order; the first of them gets the sums.
template <int SPLIT, int UNITS, int COUNT>
__device__ __forceinline__ void add_split(float (&sums)[COUNT], int split, int unit,
                                          float* memory) {
    if (SPLIT == 1) return;
    __syncthreads();
    if (split > 0)
#pragma unroll
        for (int i = 0; i < COUNT; ++i) memory[((split - 1) * COUNT + i) * UNITS + unit] = sums[i];
    __syncthreads();
    if (split == 0)
        for (int other = 0; other < SPLIT - 1; ++other)
#pragma unroll
            for (int i = 0; i < COUNT; ++i) sums[i] += memory[(other * COUNT + i) * UNITS + unit];
}

// Where threads keep their sums, so that others can add up what the threads of a split have.
template <int SPLIT, int UNITS, int COUNT>
struct Kept {
    static constexpr int ROW = COUNT | 1;  // odd: neighbours meet in no bank
    float* memory;

    __device__ __forceinline__ void keep(const float (&sums)[COUNT]) const {
        __syncthreads();
#pragma unroll
        for (int i = 0; i < COUNT; ++i) memory[threadIdx.x * ROW + i] = sums[i];
        __syncthreads();
    }
    __device__ __forceinline__ float sum_of(int unit, int i) const {
        float sum = 0.0f;
#pragma unroll 8
        for (int split = 0; split < SPLIT; ++split) sum += memory[(split * UNITS + unit) * ROW + i];
        return sum;
    }
};

// Weights with the channels of each group side by side: [channels][KERNEL][GROUPS][row], where a
// row has KERNEL columns with GROUP numbers each. IS_BACK: the groups are of channels in.
template <int STAGED, int GROUP, int GROUPS, bool IS_BACK, int THREADS>
__device__ __forceinline__ void stage_weights(const float* __restrict__ weights, int first_channel,
                                              int first_group, float* staged) {
    constexpr int ROW = ROUNDED_UP(KERNEL * GROUP, 4);
#pragma unroll 4
    for (int i = threadIdx.x; i < STAGED * KERNEL * GROUPS * KERNEL; i += THREADS) {
        // neighbours in memory are staged by neighbouring threads
        const int inner = IS_BACK ? STAGED : GROUPS, outer = IS_BACK ? GROUPS : STAGED;
        const int low = i % inner, middle = i / inner % outer, tap = i / (inner * outer);
        const int own = IS_BACK ? low : middle, group = IS_BACK ? middle : low;
        const int ky = tap / KERNEL, kx = tap % KERNEL, channel = first_channel + own;
        float* const to = staged + ((own * KERNEL + ky) * GROUPS + group) * ROW + kx * GROUP;
#pragma unroll
        for (int j = 0; j < GROUP; ++j) {
            const int other = (first_group + group) * GROUP + j;
            const int in = IS_BACK ? other : channel, out = IS_BACK ? channel : other;
            const bool is_there = in < IN_CHANNELS && out < OUT_CHANNELS;
            to[j] = is_there ? weights[(tap * IN_CHANNELS + in) * OUT_CHANNELS + out] : 0.0f;
        }
    }
}

#define FORWARD_LINES (FORWARD_BAND * POOL + KERNEL - 1)
#define FORWARD_TILES ((OUT_WIDTH + FORWARD_TILE - 1) / FORWARD_TILE)
#define FORWARD_UNITS (FORWARD_GROUPS * FORWARD_PICTURES * FORWARD_BAND * FORWARD_TILES)

// Values after pooling and relu, and which place of each window was the largest.
extern "C" __global__ void __launch_bounds__(FORWARD_THREADS)
    convolve(const float* __restrict__ pictures, const float* __restrict__ weights,
             const float* __restrict__ bias, float* __restrict__ values,
             unsigned short* __restrict__ winners) {
    constexpr int GROUP = FORWARD_GROUP, STRIDE = FORWARD_STRIDE, LINES = FORWARD_LINES;
    constexpr int WIDE = FORWARD_TILE * POOL, PICTURE = FORWARD_STAGED * LINES * STRIDE;
    constexpr int STEP = WIDE % 4 == 0 ? 4 : WIDE % 2 == 0 ? 2 : 1;
    constexpr int WINDOW = ROUNDED_UP(WIDE + KERNEL - 1, STEP);
    constexpr int WEIGHT_ROW = ROUNDED_UP(KERNEL * GROUP, 4);
    extern __shared__ __align__(16) float memory[];
    float* const staged_weights = memory + FORWARD_PICTURES * PICTURE;

    const int unit = threadIdx.x % FORWARD_UNITS, split = threadIdx.x / FORWARD_UNITS;
    const int tile = unit % FORWARD_TILES, row = unit / FORWARD_TILES % FORWARD_BAND;
    const int own = unit / (FORWARD_TILES * FORWARD_BAND) % FORWARD_PICTURES;
    const int group = unit / (FORWARD_TILES * FORWARD_BAND * FORWARD_PICTURES);
    const int first_row = blockIdx.y * FORWARD_BAND, first_group = blockIdx.z * FORWARD_GROUPS;
    const int first_picture = blockIdx.x * FORWARD_PICTURES;

    float sums[POOL * WIDE * GROUP] = {};
    for (int first = 0; first < IN_CHANNELS; first += FORWARD_STAGED) {
        if (first > 0) __syncthreads();
        for (int i = 0; i < FORWARD_PICTURES && first_picture + i < BATCH; ++i)
            stage_picture<FORWARD_STAGED, LINES, STRIDE, FORWARD_THREADS>(
                pictures + (long long)(first_picture + i) * IN_SIZE, first, first_row * POOL,
                memory + i * PICTURE);
        stage_weights<FORWARD_STAGED, GROUP, FORWARD_GROUPS, false, FORWARD_THREADS>(
            weights, first, first_group, staged_weights);
        __syncthreads();
        for (int channel = split; channel < FORWARD_STAGED; channel += FORWARD_SPLIT) {
            const float* at =
                memory + own * PICTURE + (channel * LINES + row * POOL) * STRIDE + tile * WIDE;
            const float* its =
                staged_weights + (channel * KERNEL * FORWARD_GROUPS + group) * WEIGHT_ROW;
#pragma unroll
            for (int ky = 0; ky < KERNEL; ++ky) {
                float factors[WEIGHT_ROW];
                load_row<4>(its + ky * FORWARD_GROUPS * WEIGHT_ROW, factors);
#pragma unroll
                for (int y = 0; y < POOL; ++y) {
                    float window[WINDOW];
                    load_row<STEP>(at + (y + ky) * STRIDE, window);
#pragma unroll
                    for (int kx = 0; kx < KERNEL; ++kx)
#pragma unroll
                        for (int x = 0; x < WIDE; ++x)
#pragma unroll
                            for (int j = 0; j < GROUP; ++j)
                                sums[(y * WIDE + x) * GROUP + j] +=
                                    window[x + kx] * factors[kx * GROUP + j];
                }
            }
        }
    }
    add_split<FORWARD_SPLIT, FORWARD_UNITS>(sums, split, unit, memory);

    const int picture = first_picture + own, y = first_row + row;
    if (split > 0 || picture >= BATCH || y >= OUT_HEIGHT) return;
#pragma unroll
    for (int j = 0; j < GROUP; ++j) {
        const int channel = (first_group + group) * GROUP + j;
        if (channel >= OUT_CHANNELS) break;
        const float its_bias = bias[channel];
#pragma unroll
        for (int window = 0; window < FORWARD_TILE; ++window) {
            const int x = tile * FORWARD_TILE + window;
            if (x >= OUT_WIDTH) break;
            float largest = sums[window * POOL * GROUP + j] + its_bias;
            unsigned int winner = 0;
#pragma unroll
            for (int place = 1; place < POOL * POOL; ++place) {
                const int at = place / POOL * WIDE + window * POOL + place % POOL;
                const float value = sums[at * GROUP + j] + its_bias;
                if (value > largest || value != value) {  // a NaN is handed on
                    largest = value;
                    winner = place;
                }
            }
            const long long to = (long long)picture * OUT_SIZE + place_out(channel, y, x);
            values[to] = largest <= 0.0f ? 0.0f : largest;
            winners[to] = largest <= 0.0f ? CLOSED : winner;
        }
    }
}

#define BACKWARD_MARGIN (KERNEL - 1 - PADDING)
#define BACKWARD_UNITS (BACKWARD_PICTURES * BACKWARD_BAND * BACKWARD_TILES * BACKWARD_GROUPS)

// Gradients of the images that went in.
extern "C" __global__ void __launch_bounds__(BACKWARD_THREADS)
    slopes_back(const float* __restrict__ slopes, const unsigned short* __restrict__ winners,
                const float* __restrict__ weights, float* __restrict__ slopes_in) {
    constexpr int GROUP = BACKWARD_GROUP, STRIDE = BACKWARD_STRIDE, WIDE = BACKWARD_TILE;
    constexpr int LINES = BACKWARD_ROWS * POOL, PICTURE = BACKWARD_STAGED * LINES * STRIDE;
    constexpr int WINDOW = ROUNDED_UP(WIDE + KERNEL - 1, 4);
    constexpr int WEIGHT_ROW = ROUNDED_UP(KERNEL * GROUP, 4);
    extern __shared__ __align__(16) float memory[];
    float* const staged_weights = memory + BACKWARD_PICTURES * PICTURE;

    const int unit = threadIdx.x % BACKWARD_UNITS, split = threadIdx.x / BACKWARD_UNITS;
    const int line = unit % BACKWARD_BAND, tile = unit / BACKWARD_BAND % BACKWARD_TILES;
    const int own = unit / (BACKWARD_BAND * BACKWARD_TILES) % BACKWARD_PICTURES;
    const int group = unit / (BACKWARD_BAND * BACKWARD_TILES * BACKWARD_PICTURES);
    const int first_line = blockIdx.y * BACKWARD_BAND, first_group = blockIdx.z * BACKWARD_GROUPS;
    const int first_picture = blockIdx.x * BACKWARD_PICTURES, y = first_line + line;
    // places whose windows lie on this line, and the row of windows that is staged first
    const int highest = max(0, y + PADDING - KERNEL + 1);
    const int lowest = min(PLACES_HIGH - 1, y + PADDING);
    const int first_row = max(0, first_line + PADDING - KERNEL + 1) / POOL;

    float sums[WIDE * GROUP] = {};
    for (int first = 0; first < OUT_CHANNELS; first += BACKWARD_STAGED) {
        if (first > 0) __syncthreads();
        stage_weights<BACKWARD_STAGED, GROUP, BACKWARD_GROUPS, true, BACKWARD_THREADS>(
            weights, first, first_group, staged_weights);
        for (int i = 0; i < BACKWARD_PICTURES && first_picture + i < BATCH; ++i) {
            const long long at = (long long)(first_picture + i) * OUT_SIZE;
            stage_slopes<BACKWARD_STAGED, BACKWARD_ROWS, STRIDE, BACKWARD_MARGIN, BACKWARD_THREADS>(
                slopes + at, winners + at, first, first_row, memory + i * PICTURE);
        }
        __syncthreads();
        for (int channel = split; channel < BACKWARD_STAGED; channel += BACKWARD_SPLIT) {
            const float* at = memory + own * PICTURE +
                              (channel * LINES - first_row * POOL) * STRIDE + tile * WIDE;
            const float* its =
                staged_weights + (channel * KERNEL * BACKWARD_GROUPS + group) * WEIGHT_ROW;
            for (int place = highest; place <= lowest; ++place) {
                float window[WINDOW], factors[WEIGHT_ROW];
                load_row<4>(at + place * STRIDE, window);
                load_row<4>(its + (y + PADDING - place) * BACKWARD_GROUPS * WEIGHT_ROW, factors);
#pragma unroll
                for (int kx = 0; kx < KERNEL; ++kx)
#pragma unroll
                    for (int x = 0; x < WIDE; ++x) {
                        const int column = x + KERNEL - 1 - kx;
                        // where a line is one tile, it is known which columns are the margin
                        if (BACKWARD_TILES == 1 &&
                            (column < BACKWARD_MARGIN || column >= BACKWARD_MARGIN + PLACES_WIDE))
                            continue;
#pragma unroll
                        for (int j = 0; j < GROUP; ++j)
                            sums[x * GROUP + j] += window[column] * factors[kx * GROUP + j];
                    }
            }
        }
    }
    const Kept<BACKWARD_SPLIT, BACKWARD_UNITS, WIDE * GROUP> kept = {memory};
    kept.keep(sums);
    for (int i = threadIdx.x; i < BACKWARD_UNITS * WIDE * GROUP; i += BACKWARD_THREADS) {
        const int its_x = i % WIDE, its_tile = i / WIDE % BACKWARD_TILES;
        const int x = its_tile * WIDE + its_x,
                  its_line = i / (WIDE * BACKWARD_TILES) % BACKWARD_BAND;
        const int rest = i / (WIDE * BACKWARD_TILES * BACKWARD_BAND);
        const int j = rest % GROUP, its_group = rest / GROUP % BACKWARD_GROUPS;
        const int its_own = rest / (GROUP * BACKWARD_GROUPS);
        const int channel = (first_group + its_group) * GROUP + j;
        const int picture = first_picture + its_own, its_y = first_line + its_line;
        const int its_unit =
            ((its_group * BACKWARD_PICTURES + its_own) * BACKWARD_TILES + its_tile) *
                BACKWARD_BAND +
            its_line;
        if (picture < BATCH && channel < IN_CHANNELS && its_y < IN_HEIGHT && x < IN_WIDTH)
            slopes_in[(long long)picture * IN_SIZE + (channel * IN_HEIGHT + its_y) * IN_WIDTH + x] =
                kept.sum_of(its_unit, its_x * GROUP + j);
    }
}

#define GRADIENT_LINES (GRADIENT_BAND * POOL)
#define GRADIENT_KERNEL_ROWS (GRADIENT_STAGED * KERNEL + 1)
#define GRADIENT_UNITS (GRADIENT_KERNEL_ROWS * GRADIENT_GROUPS)

// Gradients of weights and biases, summed over a share of the images: a part for each block.
// A thread has a row of the kernel. Biases are one more row of it, that is shown ones.
extern "C" __global__ void __launch_bounds__(GRADIENT_THREADS)
    gradient(const float* __restrict__ pictures, const float* __restrict__ slopes,
             const unsigned short* __restrict__ winners, float* __restrict__ parts) {
    constexpr int GROUP = GRADIENT_GROUP, WIDE = GRADIENT_TILE, LINES = GRADIENT_PICTURE_LINES;
    constexpr int PICTURE = GRADIENT_STAGED * LINES * GRADIENT_PICTURE_STRIDE;
    constexpr int CHANNEL_SLOPES = GRADIENT_LINES * GRADIENT_SLOPE_STRIDE;
    constexpr int SLOPES = GRADIENT_GROUPS * GROUP * CHANNEL_SLOPES;
    constexpr int WINDOW = ROUNDED_UP(WIDE + KERNEL - 1, 4);
    extern __shared__ __align__(16) float memory[];
    float* const ones = memory + GRADIENT_PICTURES * PICTURE;
    float* const staged_slopes = ones + GRADIENT_PICTURE_STRIDE;

    const int unit = threadIdx.x % GRADIENT_UNITS, split = threadIdx.x / GRADIENT_UNITS;
    const int kernel_row = unit % GRADIENT_KERNEL_ROWS, group = unit / GRADIENT_KERNEL_ROWS;
    const int own = kernel_row / KERNEL, ky = kernel_row % KERNEL;
    const bool is_bias = own == GRADIENT_STAGED;
    const int first_in = blockIdx.y * GRADIENT_STAGED;
    const int first_out = blockIdx.z * GRADIENT_GROUPS * GROUP;
    const int line_stride = is_bias ? 0 : GRADIENT_PICTURE_STRIDE;
    const int picture_stride = is_bias ? 0 : PICTURE;
    const float* const its_pictures = is_bias ? ones : memory + (own * LINES + ky) * line_stride;
    const float* const its_slopes = staged_slopes + group * GROUP * CHANNEL_SLOPES;

    for (int i = threadIdx.x; i < GRADIENT_PICTURE_STRIDE; i += GRADIENT_THREADS) ones[i] = 1.0f;
    float sums[KERNEL * GROUP] = {};
    const int items = BATCH * GRADIENT_BANDS;
    for (int first = blockIdx.x * GRADIENT_PICTURES; first < items;
         first += gridDim.x * GRADIENT_PICTURES) {
        const int count = min(GRADIENT_PICTURES, items - first);
        __syncthreads();
        for (int i = 0; i < count; ++i) {
            const long long picture = (first + i) / GRADIENT_BANDS;
            const int first_row = (first + i) % GRADIENT_BANDS * GRADIENT_BAND;
            stage_picture<GRADIENT_STAGED, LINES, GRADIENT_PICTURE_STRIDE, GRADIENT_THREADS>(
                pictures + picture * IN_SIZE, first_in, first_row * POOL, memory + i * PICTURE);
            stage_slopes<GRADIENT_GROUPS * GROUP, GRADIENT_BAND, GRADIENT_SLOPE_STRIDE, 0,
                         GRADIENT_THREADS>(slopes + picture * OUT_SIZE,
                                           winners + picture * OUT_SIZE, first_out, first_row,
                                           staged_slopes + i * SLOPES);
        }
        __syncthreads();
        for (int i = split; i < count * GRADIENT_LINES; i += GRADIENT_SPLIT) {
            const int picture = i / GRADIENT_LINES, line = i % GRADIENT_LINES;
            const float* const at = its_pictures + picture * picture_stride + line * line_stride;
            const float* const its = its_slopes + picture * SLOPES + line * GRADIENT_SLOPE_STRIDE;
#pragma unroll
            for (int tile = 0; tile < GRADIENT_TILES; ++tile) {
                float window[WINDOW];
                load_row<4>(at + tile * WIDE, window);
#pragma unroll
                for (int j = 0; j < GROUP; ++j) {
                    float factors[WIDE];
                    load_row<4>(its + j * CHANNEL_SLOPES + tile * WIDE, factors);
#pragma unroll
                    for (int kx = 0; kx < KERNEL; ++kx)
#pragma unroll
                        for (int x = 0; x < WIDE; ++x)
                            sums[kx * GROUP + j] += window[x + kx] * factors[x];
                }
            }
        }
    }

    const Kept<GRADIENT_SPLIT, GRADIENT_UNITS, KERNEL * GROUP> kept = {memory};
    kept.keep(sums);
    float* const part = parts + (long long)blockIdx.x * (WEIGHTS + OUT_CHANNELS);
    constexpr int COLUMNS = GRADIENT_GROUPS * GROUP;
    // in the order in which they lie in memory; biases come last
    constexpr int ROWS = KERNEL * KERNEL * GRADIENT_STAGED + 1;
    for (int i = threadIdx.x; i < ROWS * COLUMNS; i += GRADIENT_THREADS) {
        const int column = i % COLUMNS, out = first_out + column, row = i / COLUMNS;
        const bool is_last = row == ROWS - 1;
        const int tap = row / GRADIENT_STAGED, its_own = row % GRADIENT_STAGED;
        const int in = first_in + its_own;
        if (out >= OUT_CHANNELS || (is_last ? first_in > 0 : in >= IN_CHANNELS)) continue;
        const int its_row = is_last ? GRADIENT_KERNEL_ROWS - 1 : its_own * KERNEL + tap / KERNEL;
        const int kx = is_last ? 0 : tap % KERNEL;
        const int to = is_last ? WEIGHTS + out : (tap * IN_CHANNELS + in) * OUT_CHANNELS + out;
        part[to] = kept.sum_of(column / GROUP * GRADIENT_KERNEL_ROWS + its_row,
                               kx * GROUP + column % GROUP);
    }
}
