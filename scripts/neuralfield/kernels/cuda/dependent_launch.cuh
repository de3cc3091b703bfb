// How kernels that are launched one after another overlap (programmatic dependent launch): one may
// start while the one before it ends, as far as multiprocessors have room; host side:
// engines/cuda/dependent_launch.py.
//
// Each waits before it reads what the kernel before it writes, or writes what that one reads; only
// then does it let the next one start. So what comes before a kernel's wait has the kernel before
// the last behind it, and may read what that one wrote: past the first-level cache (`__ldcg`), which
// is not told. Before compute capability 9.0 there is no such thing.
//
// sampling_batch.cu lets the next one start at once, and a single block of it waits. So what comes
// before the wait of update_batch.cu may have a pass beside it, but the update before is complete.
//
// Before their wait
//   update.cu and update_batch.cu read what the update before them wrote;
//   sampling_batch.cu, beside a pass, reads the step's number, from the update before that pass,
//     and fills the batch that the pass before that has read;
//   hopper_narrow_batch.cu reads which batch is filled, as sampling_batch.cu has left it, which the
//     update between them has waited for;
//   hopper_weights.cu sums what hopper_pass.cu has counted as stored.
#pragma once

__device__ __forceinline__ void let_later_kernels_start() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

__device__ __forceinline__ void wait_for_earlier_kernels() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
    let_later_kernels_start();
}
