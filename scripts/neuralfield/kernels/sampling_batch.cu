// Sampling for several networks of one shape in one launch; the second coordinate of a block is the
// network's number.
//
// Constants: those of sampling.cu, which hold for all.
#include "sampling_member.cuh"

extern "C" __global__ void __launch_bounds__(TILE_ROWS* TILES_PER_BLOCK)
    sample_batch(const SamplingMember* members) {
    const SamplingMember member = members[blockIdx.y];
    sample_member(member, blockIdx.x, *member.step_taken);
}
