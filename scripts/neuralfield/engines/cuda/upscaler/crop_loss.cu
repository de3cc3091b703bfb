// The loss of what a network adds to crops, and its gradient. Reference implementation:
// nn/losses.py.
//
// Constants: those of loss.cuh, COUNT (values of all crops), THREADS.
#include "../loss.cuh"

// Adds up a number of each thread in a fixed order; the first thread gets the sum.
__device__ __forceinline__ double block_sum(double number) {
    __shared__ double numbers[THREADS];
    __syncthreads();
    numbers[threadIdx.x] = number;
#pragma unroll
    for (int apart = THREADS / 2; apart > 0; apart /= 2) {
        __syncthreads();
        if (threadIdx.x < apart) numbers[threadIdx.x] += numbers[threadIdx.x + apart];
    }
    return numbers[0];
}

extern "C" __global__ void __launch_bounds__(THREADS)
    crop_loss(const float* __restrict__ values, const float* __restrict__ targets,
              float* __restrict__ gradients, double* __restrict__ loss_partials) {
    double loss = 0.0, squared_error = 0.0;
    for (long long i = (long long)blockIdx.x * THREADS + threadIdx.x; i < COUNT;
         i += (long long)gridDim.x * THREADS) {
        const float value = values[i], target = targets[i], error = value - target;
        loss += loss_value(value, target);
        squared_error += error * error;
        gradients[i] = loss_derivative(value, target) * float(1.0 / COUNT);
    }
    loss = block_sum(loss);
    squared_error = block_sum(squared_error);
    if (threadIdx.x == 0) {
        loss_partials[2 * blockIdx.x] = loss / COUNT;
        loss_partials[2 * blockIdx.x + 1] = squared_error / COUNT;
    }
}
