// The loss of a network's outputs, which are added to crops, and its gradient. Reference
// implementation: nn/losses.py.
//
// Constants: those of loss.cuh, COUNT (values of all crops), THREADS.
#include "../loss.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    crop_loss(const float* __restrict__ values, const float* __restrict__ targets,
              float* __restrict__ gradients, double* __restrict__ loss_partials) {
    __shared__ double losses[THREADS], squared_errors[THREADS];
    double loss = 0.0, squared_error = 0.0;
    for (long long i = (long long)blockIdx.x * THREADS + threadIdx.x; i < COUNT;
         i += (long long)gridDim.x * THREADS) {
        const float value = values[i], target = targets[i], error = value - target;
        loss += loss_value(value, target);
        squared_error += error * error;
        gradients[i] = loss_derivative(value, target) * float(1.0 / COUNT);
    }
    losses[threadIdx.x] = loss;
    squared_errors[threadIdx.x] = squared_error;
#pragma unroll
    for (int apart = THREADS / 2; apart > 0; apart /= 2) {  // in a fixed order
        __syncthreads();
        if (threadIdx.x < apart) {
            losses[threadIdx.x] += losses[threadIdx.x + apart];
            squared_errors[threadIdx.x] += squared_errors[threadIdx.x + apart];
        }
    }
    if (threadIdx.x == 0) {
        loss_partials[2 * blockIdx.x] = losses[0] / COUNT;
        loss_partials[2 * blockIdx.x + 1] = squared_errors[0] / COUNT;
    }
}
