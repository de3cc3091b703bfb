// Sampling for one of several networks of one shape.
//
// Constants: those of sampling.cu, which hold for all.
#pragma once
#include "sampling.cu"

// What `sample` is given, for one network.
struct SamplingMember {
    const long long* step_taken;
    const double* cumulative;
    const int* part_starts;
    const float* values;
    float2* inputs;
    float *targets, *weights;
    unsigned long long seed;
};

__device__ __forceinline__ void sample_member(const SamplingMember& member, int block,
                                              long long step) {
    sample_rows(block, step, member.cumulative, member.part_starts, member.values, member.inputs,
                member.targets, member.weights, member.seed);
}
