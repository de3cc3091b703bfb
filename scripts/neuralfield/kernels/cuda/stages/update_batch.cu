// The update of several networks of one shape in one launch; the second coordinate of a block is
// the network's number.
//
// Passes leave sums of parts, one for each of a block's warps alone, which are few: here a warp has
// all that a block has alone, and adds them up in the same order.
//
// Constants: those of update.cu, which hold for all.
#include "update.cu"

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

// So many elements of each of a warp's threads, from the one that is given: all loads are on their
// way before the first is stored. Beyond the last the last is loaded again.
template <int count>
__device__ __forceinline__ void move_elements(const Work& work, const Elements& elements, int first,
                                              Scalars now) {
    Element mine[count];
    float gradients[count];
#pragma unroll
    for (int i = 0; i < count; ++i) {
        const int own = min(first + 32 * i, work.size - 1);
        const int row = own / work.columns, column = own - row * work.columns;
        const float* at = work.partials + (long long)row * work.row_stride + column;
        mine[i] = elements.load(work, own, false);
        gradients[i] = work.scale * sum_of_few_parts(at, work.parts, work.part_stride);
    }
#pragma unroll
    for (int i = 0; i < count; ++i)
        if (first + 32 * i < work.size) {
            move(mine[i], gradients[i], now);
            elements.store(work, first + 32 * i, mine[i]);
        }
}

extern "C" __global__ void __launch_bounds__(THREADS) update_batch(const Member* members) {
    const Member& member = members[blockIdx.y];
    const long long step = __ldcg(member.step_taken);  // which only the update before has changed
    if (blockIdx.x == 0) {
        if (threadIdx.x == 0)  // as in `update`
            member.scalars[(step + 1) & 1] = scalars_of(step + 1, *member.schedule);
        wait_for_earlier_kernels();
        add_totals(member.loss_partials, member.totals);
    } else {
        const int index = (blockIdx.x - 1) * WARPS + threadIdx.x / 32;
        const Elements elements = {member.parameters, member.moments1, member.moments2};
        const Work work = member.works[min(index, BLOCKS - 1)];
        const Scalars now = load_scalars(member.scalars + (step & 1));
        wait_for_earlier_kernels();
        const int first = work.first + threadIdx.x % 32;
        if (index < BLOCKS) {
            if (work.is_vector)
                move_elements<4>(work, elements, first, now);
            else
                move_elements<1>(work, elements, first, now);
        }
    }
    count_step(step, member.step_taken, member.blocks_done);
}
