// The scalars of a step that its update needs.
#pragma once

struct Scalars {
    float rate;  // of Adam with its correction for the first moment; else the learning rate
    float inverse_correction2;
    float learning_rate;
};

// Loads the scalars of a step, which the kernel before the previous one has written.
__device__ __forceinline__ Scalars load_scalars(const Scalars* scalars) {
    return {__ldcg(&scalars->rate), __ldcg(&scalars->inverse_correction2),
            __ldcg(&scalars->learning_rate)};
}
