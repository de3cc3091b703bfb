// Sampling for several networks of one shape in one launch; the second coordinate of a block is the
// network's number.
//
// It samples for the next step beside the pass of this one: each network has two batches, which
// steps take in turn. A block has room beside one of the pass, as long as that leaves it its 4096
// registers; others go to multiprocessors that the pass leaves free. Blocks end when they have
// sampled, all but the last, which waits for the pass: so the kernel behind this one has the pass
// behind it, too.
//
// Constants: those of sampling.cu, which hold for all.
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

// Samples for the step after `step` finished ones, where none is under way.
extern "C" __global__ void __launch_bounds__(THREADS)
    sample_first(long long step, const Network* networks, long long* sampled_step) {
    sample_network(networks[blockIdx.y], step);
    if (blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0) *sampled_step = step;
}

// Samples for the step after the one that is under way; many blocks at once, as they wait for
// memory.
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
