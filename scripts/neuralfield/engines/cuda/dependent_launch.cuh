// Kernels that are launched one after another overlap (programmatic dependent launch): one may
// start while the one before it ends, as far as multiprocessors have room; host side:
// engines/cuda/dependent_launch.py.
//
// Each waits before it reads what the kernel before it writes, or writes what that one reads; only
// then does it let the next one start. So what comes before a kernel's wait has the kernel before
// the last behind it, and may read what that one wrote: past the first-level cache (`__ldcg`),
// which is not notified. Before compute capability 9.0 there is no such thing.
//
// sampling_batch.cu lets the next one start at once, and one of its blocks waits: what comes before
// the wait of update_batch.cu has the update of the step before behind it, but no pass.
//
// Before their wait
//   update.cu and update_batch.cu read what the update before them wrote, and write the next step's
//     scalars over those that it has read;
//   narrow_batch.cu reads what sampling_batch.cu sampled before the update that is ending;
//   sampling_batch.cu, while a pass is under way, reads the number of its step from the update
//   before
//     that, and fills a batch that the pass before it has read;
//   weight_gradients.cu sums what wide_pass.cu has counted as stored;
//   grid_row_sums reads where corners lie, which no kernel writes. grid_line_sums, which is launched
//     alone, lets it start at once.
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
