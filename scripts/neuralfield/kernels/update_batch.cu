// The update of several networks of one shape in one launch; the second coordinate of a block is
// the network's number.
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

extern "C" __global__ void __launch_bounds__(THREADS) update_batch(const Member* members) {
    const Member member = members[blockIdx.y];
    end_step(member.works, member.parameters, member.moments1, member.moments2,
             member.loss_partials, member.totals, member.scalars, member.schedule,
             member.step_taken, member.blocks_done, member.gradients, member.clip_factor,
             member.direction_squares);
}
