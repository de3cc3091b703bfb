// How kernels that are launched one after another overlap (programmatic dependent launch): one may
// start while the one before it ends, as far as multiprocessors have room; host side:
// engines/dependent_launch.py.
//
// Each waits before it reads what other kernels write in a step, or writes what they read; only
// then does it let the next one start. So what comes before a kernel's wait has the kernel before
// the last behind it. Before compute capability 9.0 there is no such thing.
//
// One reads before its wait: hopper_weights.cu, of what hopper_pass.cu has counted as stored.
#pragma once

__device__ __forceinline__ void wait_for_earlier_kernels() {
#if __CUDA_ARCH__ >= 900
    asm volatile(
        "griddepcontrol.wait;\n"
        "griddepcontrol.launch_dependents;\n" ::
            : "memory");
#endif
}
