// The crops of a step, as inputs of the network, and the targets of its outputs, which are added to
// the crops. Reference implementations: tasks/upscaler/upscaler_objective.py (Crops),
// fields/upscaler.py (UpscalingNetwork).
//
// Constants: BATCH (crops), CHANNELS, HEIGHT, WIDTH (of the image), SIDE (of a crop), REACH (pixels
// around it that the network sees), SEED, THREADS.
//
// One thread for each value: first all inputs, then all targets. Both are stored channel by
// channel.
#include "../philox.cuh"

#define SEEN (SIDE + 2 * REACH)
#define INPUTS (CHANNELS * SEEN * SEEN)
#define TARGETS (CHANNELS * SIDE * SIDE)

// Returns a random whole number below `count`.
__device__ __forceinline__ int whole_number(unsigned int word, int count) {
    return int(double(uniform(word)) * count);
}

struct Crop {
    int top, left, symmetry;

    __device__ __forceinline__ static Crop of(unsigned int number, long long step) {
        const Words words = philox({number, 0u, (unsigned int)step, STREAM_CROP}, SEED);
        return {whole_number(words.w0, HEIGHT - SIDE + 1), whole_number(words.w1, WIDTH - SIDE + 1),
                whole_number(words.w2, 8)};
    }

    // Returns the index of a pixel in an image with `line_pixels` pixels per line. (x, y) is its
    // place in a square that begins at the crop's corner, after the crop's symmetry is applied.
    __device__ __forceinline__ int pixel(int y, int x, int side, int line_pixels) const {
        if (symmetry & 4) x = side - 1 - x;
        if (symmetry & 2) y = side - 1 - y;
        return symmetry & 1 ? (top + x) * line_pixels + left + y
                            : (top + y) * line_pixels + left + x;
    }
};

// enlarged: the image without its detail, and REACH pixels around it. light: the image. In both,
// the channels of a pixel are neighbours.
extern "C" __global__ void __launch_bounds__(THREADS)
    sample_crops(const long long* __restrict__ step_taken, const float* __restrict__ enlarged,
                 const float* __restrict__ light, float* __restrict__ inputs,
                 float* __restrict__ targets) {
    constexpr int ENLARGED_WIDTH = WIDTH + 2 * REACH;
    long long i = (long long)blockIdx.x * THREADS + threadIdx.x;
    if (i < (long long)BATCH * INPUTS) {
        const Crop crop = Crop::of((unsigned int)(i / INPUTS), *step_taken);
        const int place = i % (SEEN * SEEN), channel = i / (SEEN * SEEN) % CHANNELS;
        const int pixel = crop.pixel(place / SEEN, place % SEEN, SEEN, ENLARGED_WIDTH);
        inputs[i] = enlarged[(long long)pixel * CHANNELS + channel] - 0.5f;
        return;
    }
    i -= (long long)BATCH * INPUTS;
    if (i >= (long long)BATCH * TARGETS) return;
    const Crop crop = Crop::of((unsigned int)(i / TARGETS), *step_taken);
    const int place = i % (SIDE * SIDE), channel = i / (SIDE * SIDE) % CHANNELS;
    const int y = place / SIDE, x = place % SIDE;
    const long long pixel = crop.pixel(y, x, SIDE, WIDTH);
    const long long same = crop.pixel(y + REACH, x + REACH, SEEN, ENLARGED_WIDTH);
    targets[i] = light[pixel * CHANNELS + channel] - enlarged[same * CHANNELS + channel];
}
