// Overlap of kernels that are launched one after another (programmatic dependent launch): a kernel
// may start while the previous one ends, on multiprocessors that have free resources. Host side:
// engines/cuda/dependent_launch.py.
//
// Each kernel waits before it reads data that the previous kernel writes, or writes data that the
// previous kernel reads. Only after this wait does it let the next kernel start. Therefore, when
// the code before a kernel's wait runs, the kernel before the previous one has finished, and its
// results may be read, but with loads that bypass the first-level cache (`__ldcg`), because that
// cache is not invalidated. There is no such overlap before compute capability 9.0.
//
// Before their wait
//   update.cu reads the results of the previous update, and writes the next step's scalars over
//     those that it has read;
//   weight_gradients.cu sums values that wide_pass.cu has counted as stored;
//   grid_row_sums reads the positions of corners, which no kernel writes. grid_line_sums, which is
//     launched without overlap, lets it start at once.
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
