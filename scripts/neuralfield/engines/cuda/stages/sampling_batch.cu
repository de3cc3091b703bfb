// Sampling for several networks of one shape in one launch; the second coordinate of a block is the
// network's number.
//
// The kernel samples for the next step while the pass of the current step runs: each network has
// two batches, which steps use in turn. A block can share a multiprocessor with a block of the pass
// if that leaves it the 4096 registers that it needs; other blocks run on multiprocessors that the
// pass leaves free. Blocks end when they have sampled, except the last one, which waits for the
// pass. Therefore, when the next kernel has waited for this one, the pass has finished, too.
//
// Constants: those of sampling.cu, which are the same for all networks.
#include "../dependent_launch.cuh"
#include "sampling.cu"

struct Batch {
    float2* inputs;
    float *targets, *weights;
};

// The arguments of `sample` for one network of the batch.
struct Network {
    const long long* step_taken;
    const double* cumulative;
    const int* part_starts;
    const float* values;
    Batch even, odd;  // of steps
    unsigned long long seed;
};

// Samples for the step after `step` finished ones.
__device__ __forceinline__ void sample_network(const Network& network, long long step) {
    const Batch batch = step & 1 ? network.odd : network.even;
    sample_rows(step, network.cumulative, network.part_starts, network.values, batch.inputs,
                batch.targets, batch.weights, network.seed);
}

// Samples for the step after `step` finished ones, while no step is running.
extern "C" __global__ void __launch_bounds__(THREADS)
    sample_first(long long step, const Network* networks, long long* sampled_step) {
    sample_network(networks[blockIdx.y], step);
    if (blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0) *sampled_step = step;
}

// Samples for the step after the one that is running. Many blocks are resident at once, because
// they wait for memory.
extern "C" __global__ void __launch_bounds__(THREADS, 16)
    sample_next(const Network* networks, long long* sampled_step) {
    let_later_kernels_start();
    const Network network = networks[blockIdx.y];
    const long long next = __ldcg(network.step_taken) + 1;
    sample_network(network, next);
    if (blockIdx.x == gridDim.x - 1 && blockIdx.y == gridDim.y - 1) {
        wait_for_earlier_kernels();
        if (threadIdx.x == 0) *sampled_step = next;  // all blocks of the pass have read it
    }
}
