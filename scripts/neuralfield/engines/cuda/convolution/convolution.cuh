// Code that the kernels of a convolution share: sizes, and rows of images in shared memory.
//
// Constants: IN_CHANNELS, IN_HEIGHT, IN_WIDTH, OUT_CHANNELS, KERNEL, PADDING, POOL, OUT_HEIGHT,
// OUT_WIDTH (after pooling), FLAT (1: outputs are stored place by place, as linear layers read
// them; 0: channel by channel), RELU (0, 1), BATCH.
#pragma once

#define IN_SIZE (IN_CHANNELS * IN_HEIGHT * IN_WIDTH)
#define OUT_PLACES (OUT_HEIGHT * OUT_WIDTH)
#define OUT_SIZE (OUT_CHANNELS * OUT_PLACES)
// places that lie in a window of the pooling; the remaining places at the end are ignored
#define PLACES_HIGH (OUT_HEIGHT * POOL)
#define PLACES_WIDE (OUT_WIDTH * POOL)
#define WEIGHTS (KERNEL * KERNEL * IN_CHANNELS * OUT_CHANNELS)
// stored instead of the winner's place in its window if relu passes no gradient on
#define CLOSED 0xFFFFu

#define ROUNDED_UP(number, multiple) (((number) + (multiple) - 1) / (multiple) * (multiple))

// Returns the index of a value among the outputs of an image.
__device__ __forceinline__ int place_out(int channel, int y, int x) {
    return FLAT ? (y * OUT_WIDTH + x) * OUT_CHANNELS + channel
                : (channel * OUT_HEIGHT + y) * OUT_WIDTH + x;
}

// Numbers that one instruction loads; WIDE is 1, 2 or 4.
template <int WIDE>
struct __align__(4 * WIDE) Numbers {
    float of[WIDE];
};

// Loads COUNT neighbouring numbers of shared memory, WIDE at a time; COUNT and the address are
// multiples of WIDE.
template <int WIDE, int COUNT>
__device__ __forceinline__ void load_row(const float* at, float (&numbers)[COUNT]) {
#pragma unroll
    for (int i = 0; i < COUNT; i += WIDE) {
        const Numbers<WIDE> loaded = *(const Numbers<WIDE>*)(at + i);
#pragma unroll
        for (int j = 0; j < WIDE; ++j) numbers[i + j] = loaded.of[j];
    }
}

// Loads lines of some channels of an image, with zeros around it: [channels][lines][stride].
template <int CHANNELS, int LINES, int STRIDE, int THREADS>
__device__ __forceinline__ void stage_image(const float* __restrict__ image, int first_channel,
                                            int first_line, float* staged) {
#pragma unroll 8
    for (int i = threadIdx.x; i < CHANNELS * LINES * STRIDE; i += THREADS) {
        const int column = i % STRIDE, line = i / STRIDE % LINES, own = i / (STRIDE * LINES);
        const int x = column - PADDING, y = first_line + line - PADDING;
        const int channel = first_channel + own;
        const bool is_inside =
            channel < IN_CHANNELS && 0 <= x && x < IN_WIDTH && 0 <= y && y < IN_HEIGHT;
        staged[i] = is_inside ? image[(channel * IN_HEIGHT + y) * IN_WIDTH + x] : 0.0f;
    }
}

// Writes gradients of pooled values to the places that won in their windows, and zeros elsewhere:
// [channels][rows of windows * POOL][stride], beginning `MARGIN` columns to the left.
template <int CHANNELS, int ROWS, int STRIDE, int MARGIN, int THREADS>
__device__ __forceinline__ void stage_gradients(const float* __restrict__ gradients,
                                                const unsigned short* __restrict__ winners,
                                                int first_channel, int first_row, float* staged) {
    constexpr int LINE_WINDOWS = ROUNDED_UP(STRIDE, POOL) / POOL + 1;  // also zeros in the margins
    constexpr int BEFORE = (MARGIN + POOL - 1) / POOL;
#pragma unroll 4
    for (int i = threadIdx.x; i < CHANNELS * ROWS * LINE_WINDOWS; i += THREADS) {
        const int window = i % LINE_WINDOWS - BEFORE, own = i / (LINE_WINDOWS * ROWS);
        const int row = i / LINE_WINDOWS % ROWS, y = first_row + row;
        const int channel = first_channel + own;
        float gradient = 0.0f;
        unsigned int winner = CLOSED;
        if (channel < OUT_CHANNELS && y < OUT_HEIGHT && 0 <= window && window < OUT_WIDTH) {
            const int at = place_out(channel, y, window);
            gradient = gradients[at];
            winner = winners[at];
        }
        float* const corner = staged + (own * ROWS + row) * POOL * STRIDE;
#pragma unroll
        for (int place = 0; place < POOL * POOL; ++place) {
            const int column = MARGIN + window * POOL + place % POOL;
            if (0 <= column && column < STRIDE)
                corner[place / POOL * STRIDE + column] = winner == place ? gradient : 0.0f;
        }
    }
}
