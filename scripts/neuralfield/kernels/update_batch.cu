// The update of several networks of one shape in one launch, and beside it the sampling of their
// next step; the second coordinate of a block is the network's number.
//
// Passes leave sums of parts, one for each of a block's warps alone, which are few: here a warp has
// all that a block has alone, and adds them up in the same order. Blocks that sample are told the
// step that comes next.
//
// Constants: SAMPLES (whether there are such blocks; if so, those of sampling.cu), and those of
// update.cu, which hold for all.
#include "update.cu"
#if SAMPLES
#include "sampling_member.cuh"
#else
struct SamplingMember;
#endif

constexpr int MOVING_BLOCKS = (BLOCKS + WARPS - 1) / WARPS;

// What `update` is given, for one network.
struct Member {
    const Work* works;
    float *parameters, *moments1, *moments2;
    const double* loss_partials;
    double* totals;
    Scalars* scalars;
    const Schedule* schedule;
    long long* step_taken;
    unsigned int* blocks_done;
    const float *gradients, *clip_factor;
    float* direction_squares;
};

extern "C" __global__ void set_steps(long long first_step, const Member* members) {
    const Member& member = members[blockIdx.y];
    *member.step_taken = first_step;
    member.scalars[first_step & 1] = scalars_of(first_step, *member.schedule);
}

// The sum of up to WARPS parts of one element.
__device__ __forceinline__ float sum_of_few_parts(const float* __restrict__ at, int parts,
                                                  int part_stride) {
    float loaded[WARPS];
#pragma unroll
    for (int part = 0; part < WARPS; ++part)
        loaded[part] = at[(long long)min(part, parts - 1) * part_stride];
    float sum = 0.0f;
#pragma unroll
    for (int part = 0; part < WARPS; ++part)
        if (part < parts) sum += loaded[part];
    return sum;
}

// By a warp.
__device__ __forceinline__ void move_elements(const Work work, const Elements& elements,
                                              Scalars now) {
    const int end = min(work.first + (work.is_vector ? 128 : 32), work.size);
#pragma unroll 1  // there are many warps: few registers for each
    for (int own = work.first + threadIdx.x % 32; own < end; own += 32) {
        const int row = own / work.columns, column = own - row * work.columns;
        const float* at = work.partials + (long long)row * work.row_stride + column;
        Element mine = elements.load(work, own, false);
        const float gradient = work.scale * sum_of_few_parts(at, work.parts, work.part_stride);
        move(mine, gradient, now);
        elements.store(work, own, mine);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 5)
    update_batch(const Member* members, const SamplingMember* sampling) {
    const Member& member = members[blockIdx.y];
    const int index = (blockIdx.x - 1) * WARPS + threadIdx.x / 32;
    const long long step = *member.step_taken;  // which only the update before has changed
    if (blockIdx.x == 0 && threadIdx.x == 0)    // as in `update`
        member.scalars[(step + 1) & 1] = scalars_of(step + 1, *member.schedule);
    wait_for_earlier_kernels();
    if (blockIdx.x == 0) {
        add_totals(member.loss_partials, member.totals);
    } else if (blockIdx.x <= MOVING_BLOCKS) {
        if (index < BLOCKS)
            move_elements(member.works[index], {member.parameters, member.moments1, member.moments2},
                          member.scalars[step & 1]);
    } else {
#if SAMPLES
        sample_member(sampling[blockIdx.y], blockIdx.x - 1 - MOVING_BLOCKS, step + 1);
#endif
    }
    count_step(step, member.step_taken, member.blocks_done);
}
