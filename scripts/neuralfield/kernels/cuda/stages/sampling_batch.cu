// Sampling for several networks of one shape in one launch; the second coordinate of a block is the
// network's number.
//
// It may start while the update before it ends, and draws then: what it reads and writes is the
// update's in nothing. So the step's number comes from the pass before, which counts for it.
//
// Constants: those of sampling.cu, which hold for all.
#include "dependent_launch.cuh"
#include "sampling.cu"

// What `sample` is given, for one network.
struct Member {
    const long long* step_taken;
    const double* cumulative;
    const int* part_starts;
    const float* values;
    float2* inputs;
    float *targets, *weights;
    unsigned long long seed;
};

extern "C" __global__ void __launch_bounds__(TILE_ROWS* TILES_PER_BLOCK)
    sample_batch(const Member* members, const long long* next_steps) {
    const Member member = members[blockIdx.y];
    sample_rows(__ldcg(next_steps + blockIdx.y), member.cumulative, member.part_starts,
                member.values, member.inputs, member.targets, member.weights, member.seed);
    wait_for_earlier_kernels();
}
