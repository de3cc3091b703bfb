// A convolution with its pooling and relu, forward and backward. Reference implementations:
// nn/convolution.py, nn/pooling.py, nn/ops.py (relu).
//
// Images are stored channel by channel. A block has some images, or a band of rows of one, in
// shared memory; a thread keeps a small tile of sums in registers. Sizes of tiles are in
// convolution_plan.py. All sums have a fixed order, which does not depend on the order in which
// threads run.
//
// Constants: those of convolution.cuh, and for each kernel with its prefix
//   FORWARD_ IMAGES, BAND (rows of windows), STAGED (channels in), GROUP (channels out of a
//   thread), GROUPS (of a block), TILE (windows of a thread), SPLIT (threads that share a tile's
//   channels in), STRIDE (of a line), THREADS
//   BACKWARD_ IMAGES, BAND (lines of the image), STAGED (channels out), GROUP (channels in of
//   a thread), GROUPS, TILE (columns), TILES, SPLIT (of the channels out), ROWS (of windows),
//   STRIDE, THREADS
//   GRADIENT_ IMAGES (at a time), BAND (rows of windows), BANDS, STAGED (channels in), GROUP
//   (channels out of a thread), GROUPS, TILE (places in a line), TILES, SPLIT (of the lines of all
//   images), IMAGE_LINES, IMAGE_STRIDE, OUT_STRIDE (of a line of gradients), THREADS
//
// If neighbouring threads read neighbouring lines, strides of lines are odd multiples of 16 bytes,
// so that there are no bank conflicts in shared memory.

#include "convolution.cuh"

// Adds up the sums of the threads of a split, in the threads' order; the first one gets the result.
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

// Memory in which threads store their sums, so that any thread can add up the sums of a split.
template <int SPLIT, int UNITS, int COUNT>
struct Kept {
    static constexpr int ROW = COUNT | 1;  // odd, so that neighbours have no bank conflicts
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

// Loads weights so that the channels of each group are neighbours: [channels][KERNEL][GROUPS][row],
// where a row has KERNEL columns with GROUP numbers each. IS_BACK: groups are of input channels.
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
#define FORWARD_UNITS (FORWARD_GROUPS * FORWARD_IMAGES * FORWARD_BAND * FORWARD_TILES)

// Computes values after pooling and relu, and stores the place of the largest in each window.
extern "C" __global__ void __launch_bounds__(FORWARD_THREADS)
    convolve(const float* __restrict__ images, const float* __restrict__ weights,
             const float* __restrict__ bias, float* __restrict__ values,
             unsigned short* __restrict__ winners) {
    constexpr int GROUP = FORWARD_GROUP, STRIDE = FORWARD_STRIDE, LINES = FORWARD_LINES;
    constexpr int WIDE = FORWARD_TILE * POOL, IMAGE = FORWARD_STAGED * LINES * STRIDE;
    constexpr int STEP = WIDE % 4 == 0 ? 4 : WIDE % 2 == 0 ? 2 : 1;
    constexpr int WINDOW = ROUNDED_UP(WIDE + KERNEL - 1, STEP);
    constexpr int WEIGHT_ROW = ROUNDED_UP(KERNEL * GROUP, 4);
    extern __shared__ __align__(16) float memory[];
    float* const staged_weights = memory + FORWARD_IMAGES * IMAGE;

    const int unit = threadIdx.x % FORWARD_UNITS, split = threadIdx.x / FORWARD_UNITS;
    const int tile = unit % FORWARD_TILES, row = unit / FORWARD_TILES % FORWARD_BAND;
    const int own = unit / (FORWARD_TILES * FORWARD_BAND) % FORWARD_IMAGES;
    const int group = unit / (FORWARD_TILES * FORWARD_BAND * FORWARD_IMAGES);
    const int first_row = blockIdx.y * FORWARD_BAND, first_group = blockIdx.z * FORWARD_GROUPS;
    const int first_image = blockIdx.x * FORWARD_IMAGES;

    float sums[POOL * WIDE * GROUP] = {};
    for (int first = 0; first < IN_CHANNELS; first += FORWARD_STAGED) {
        if (first > 0) __syncthreads();
        for (int i = 0; i < FORWARD_IMAGES && first_image + i < BATCH; ++i)
            stage_image<FORWARD_STAGED, LINES, STRIDE, FORWARD_THREADS>(
                images + (long long)(first_image + i) * IN_SIZE, first, first_row * POOL,
                memory + i * IMAGE);
        stage_weights<FORWARD_STAGED, GROUP, FORWARD_GROUPS, false, FORWARD_THREADS>(
            weights, first, first_group, staged_weights);
        __syncthreads();
        for (int channel = split; channel < FORWARD_STAGED; channel += FORWARD_SPLIT) {
            const float* at =
                memory + own * IMAGE + (channel * LINES + row * POOL) * STRIDE + tile * WIDE;
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

    const int image = first_image + own, y = first_row + row;
    if (split > 0 || image >= BATCH || y >= OUT_HEIGHT) return;
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
                if (value > largest || value != value) {  // NaN is propagated
                    largest = value;
                    winner = place;
                }
            }
            const long long to = (long long)image * OUT_SIZE + place_out(channel, y, x);
            const bool is_closed = RELU && largest <= 0.0f;
            values[to] = is_closed ? 0.0f : largest;
            winners[to] = is_closed ? CLOSED : winner;
        }
    }
}

#define BACKWARD_MARGIN (KERNEL - 1 - PADDING)
#define BACKWARD_UNITS (BACKWARD_IMAGES * BACKWARD_BAND * BACKWARD_TILES * BACKWARD_GROUPS)

// Computes gradients with respect to the input images.
extern "C" __global__ void __launch_bounds__(BACKWARD_THREADS)
    gradients_back(const float* __restrict__ gradients, const unsigned short* __restrict__ winners,
                   const float* __restrict__ weights, float* __restrict__ gradients_in) {
    constexpr int GROUP = BACKWARD_GROUP, STRIDE = BACKWARD_STRIDE, WIDE = BACKWARD_TILE;
    constexpr int LINES = BACKWARD_ROWS * POOL, IMAGE = BACKWARD_STAGED * LINES * STRIDE;
    constexpr int WINDOW = ROUNDED_UP(WIDE + KERNEL - 1, 4);
    constexpr int WEIGHT_ROW = ROUNDED_UP(KERNEL * GROUP, 4);
    extern __shared__ __align__(16) float memory[];
    float* const staged_weights = memory + BACKWARD_IMAGES * IMAGE;

    const int unit = threadIdx.x % BACKWARD_UNITS, split = threadIdx.x / BACKWARD_UNITS;
    const int line = unit % BACKWARD_BAND, tile = unit / BACKWARD_BAND % BACKWARD_TILES;
    const int own = unit / (BACKWARD_BAND * BACKWARD_TILES) % BACKWARD_IMAGES;
    const int group = unit / (BACKWARD_BAND * BACKWARD_TILES * BACKWARD_IMAGES);
    const int first_line = blockIdx.y * BACKWARD_BAND, first_group = blockIdx.z * BACKWARD_GROUPS;
    const int first_image = blockIdx.x * BACKWARD_IMAGES, y = first_line + line;
    // lines of places (before pooling) that depend on this line, and the row of windows that is
    // staged first
    const int highest = max(0, y + PADDING - KERNEL + 1);
    const int lowest = min(PLACES_HIGH - 1, y + PADDING);
    const int first_row = max(0, first_line + PADDING - KERNEL + 1) / POOL;

    float sums[WIDE * GROUP] = {};
    for (int first = 0; first < OUT_CHANNELS; first += BACKWARD_STAGED) {
        if (first > 0) __syncthreads();
        stage_weights<BACKWARD_STAGED, GROUP, BACKWARD_GROUPS, true, BACKWARD_THREADS>(
            weights, first, first_group, staged_weights);
        for (int i = 0; i < BACKWARD_IMAGES && first_image + i < BATCH; ++i) {
            const long long at = (long long)(first_image + i) * OUT_SIZE;
            stage_gradients<BACKWARD_STAGED, BACKWARD_ROWS, STRIDE, BACKWARD_MARGIN,
                            BACKWARD_THREADS>(gradients + at, winners + at, first, first_row,
                                              memory + i * IMAGE);
        }
        __syncthreads();
        for (int channel = split; channel < BACKWARD_STAGED; channel += BACKWARD_SPLIT) {
            const float* at =
                memory + own * IMAGE + (channel * LINES - first_row * POOL) * STRIDE + tile * WIDE;
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
                        // if a line is one tile, the margin's columns are known when compiling
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
        const int image = first_image + its_own, its_y = first_line + its_line;
        const int its_unit =
            ((its_group * BACKWARD_IMAGES + its_own) * BACKWARD_TILES + its_tile) * BACKWARD_BAND +
            its_line;
        if (image < BATCH && channel < IN_CHANNELS && its_y < IN_HEIGHT && x < IN_WIDTH)
            gradients_in[(long long)image * IN_SIZE + (channel * IN_HEIGHT + its_y) * IN_WIDTH +
                         x] = kept.sum_of(its_unit, its_x * GROUP + j);
    }
}

#define GRADIENT_LINES (GRADIENT_BAND * POOL)
#define GRADIENT_KERNEL_ROWS (GRADIENT_STAGED * KERNEL + 1)
#define GRADIENT_UNITS (GRADIENT_KERNEL_ROWS * GRADIENT_GROUPS)

// Sums gradients of weights and biases over a share of the images; each block computes one part. A
// thread has a row of the kernel. Biases are an additional row, whose inputs are ones.
extern "C" __global__ void __launch_bounds__(GRADIENT_THREADS)
    gradient(const float* __restrict__ images, const float* __restrict__ gradients,
             const unsigned short* __restrict__ winners, float* __restrict__ parts) {
    constexpr int GROUP = GRADIENT_GROUP, WIDE = GRADIENT_TILE, LINES = GRADIENT_IMAGE_LINES;
    constexpr int IMAGE = GRADIENT_STAGED * LINES * GRADIENT_IMAGE_STRIDE;
    constexpr int CHANNEL_GRADIENTS = GRADIENT_LINES * GRADIENT_OUT_STRIDE;
    constexpr int GRADIENTS = GRADIENT_GROUPS * GROUP * CHANNEL_GRADIENTS;
    constexpr int WINDOW = ROUNDED_UP(WIDE + KERNEL - 1, 4);
    extern __shared__ __align__(16) float memory[];
    float* const ones = memory + GRADIENT_IMAGES * IMAGE;
    float* const staged_gradients = ones + GRADIENT_IMAGE_STRIDE;

    const int unit = threadIdx.x % GRADIENT_UNITS, split = threadIdx.x / GRADIENT_UNITS;
    const int kernel_row = unit % GRADIENT_KERNEL_ROWS, group = unit / GRADIENT_KERNEL_ROWS;
    const int own = kernel_row / KERNEL, ky = kernel_row % KERNEL;
    const bool is_bias = own == GRADIENT_STAGED;
    const int first_in = blockIdx.y * GRADIENT_STAGED;
    const int first_out = blockIdx.z * GRADIENT_GROUPS * GROUP;
    const int line_stride = is_bias ? 0 : GRADIENT_IMAGE_STRIDE;
    const int image_stride = is_bias ? 0 : IMAGE;
    const float* const its_images = is_bias ? ones : memory + (own * LINES + ky) * line_stride;
    const float* const its_gradients = staged_gradients + group * GROUP * CHANNEL_GRADIENTS;

    for (int i = threadIdx.x; i < GRADIENT_IMAGE_STRIDE; i += GRADIENT_THREADS) ones[i] = 1.0f;
    float sums[KERNEL * GROUP] = {};
    const int items = BATCH * GRADIENT_BANDS;
    for (int first = blockIdx.x * GRADIENT_IMAGES; first < items;
         first += gridDim.x * GRADIENT_IMAGES) {
        const int count = min(GRADIENT_IMAGES, items - first);
        __syncthreads();
        for (int i = 0; i < count; ++i) {
            const long long image = (first + i) / GRADIENT_BANDS;
            const int first_row = (first + i) % GRADIENT_BANDS * GRADIENT_BAND;
            stage_image<GRADIENT_STAGED, LINES, GRADIENT_IMAGE_STRIDE, GRADIENT_THREADS>(
                images + image * IN_SIZE, first_in, first_row * POOL, memory + i * IMAGE);
            stage_gradients<GRADIENT_GROUPS * GROUP, GRADIENT_BAND, GRADIENT_OUT_STRIDE, 0,
                            GRADIENT_THREADS>(gradients + image * OUT_SIZE,
                                              winners + image * OUT_SIZE, first_out, first_row,
                                              staged_gradients + i * GRADIENTS);
        }
        __syncthreads();
        for (int i = split; i < count * GRADIENT_LINES; i += GRADIENT_SPLIT) {
            const int image = i / GRADIENT_LINES, line = i % GRADIENT_LINES;
            const float* const at = its_images + image * image_stride + line * line_stride;
            const float* const its = its_gradients + image * GRADIENTS + line * GRADIENT_OUT_STRIDE;
#pragma unroll
            for (int tile = 0; tile < GRADIENT_TILES; ++tile) {
                float window[WINDOW];
                load_row<4>(at + tile * WIDE, window);
#pragma unroll
                for (int j = 0; j < GROUP; ++j) {
                    float factors[WIDE];
                    load_row<4>(its + j * CHANNEL_GRADIENTS + tile * WIDE, factors);
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
