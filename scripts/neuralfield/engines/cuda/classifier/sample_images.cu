// The images of a step's batch, as the network's inputs. Reference implementations:
// nn/sampling.py (Batches), tasks/classifier/labelled.py (network_inputs).
//
// Constants: BATCH, SAMPLES (total), IS_EVERYTHING (every batch is all samples, in order),
// HALF_BITS (of `permuted`), SEED, PIXELS (of an image), THREADS.
//
// One block for each image.
#include "../philox.cuh"

// Returns the sample in a slot of a step's batch, which is a slice of an endless sequence of random
// orders.
__device__ __forceinline__ unsigned int sample_in_random_order(int slot, long long step) {
    const long long place = step * BATCH + slot, epoch = place / SAMPLES;
    return permuted((unsigned int)(place - epoch * SAMPLES), SAMPLES, HALF_BITS, SEED,
                    (unsigned int)epoch, STREAM_ORDER);
}

// brightness: the input of the network for each of the 256 values of a byte.
extern "C" __global__ void __launch_bounds__(THREADS)
    sample_images(const long long* __restrict__ step_taken,
                  const unsigned char* __restrict__ images, const int* __restrict__ labels,
                  const float* __restrict__ brightness, float* __restrict__ inputs,
                  int* __restrict__ samples, int* __restrict__ batch_labels) {
    __shared__ unsigned int shared_sample;
    const int slot = blockIdx.x;
    if (threadIdx.x == 0) {
#if IS_EVERYTHING
        const unsigned int sample = slot;
#else
        const unsigned int sample = sample_in_random_order(slot, *step_taken);
#endif
        samples[slot] = sample;
        batch_labels[slot] = labels[sample];
        shared_sample = sample;
    }
    __syncthreads();
    const unsigned char* const image = images + (long long)shared_sample * PIXELS;
    float* const its_inputs = inputs + (long long)slot * PIXELS;
    for (int pixel = threadIdx.x; pixel < PIXELS; pixel += THREADS)
        its_inputs[pixel] = brightness[image[pixel]];
}
