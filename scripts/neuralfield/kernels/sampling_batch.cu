// Sampling for several networks of one shape in one launch; the second coordinate of a block is the
// network's number.
//
// Constants: those of sampling.cu, which hold for all.
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
    sample_batch(const Member* members) {
    const Member member = members[blockIdx.y];
    sample_rows(*member.step_taken, member.cumulative, member.part_starts, member.values,
                member.inputs, member.targets, member.weights, member.seed);
}
