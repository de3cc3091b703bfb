// A network of complex numbers as a real one of twice the width: its parameters into those of the
// real one, and gradients back. Twin: kernels/complex_layers.py.
//
// Grid of both: (any, parts).

#define WARPS 8
#define THREADS (32 * WARPS)

// A parameter, and where its numbers stand in one or two places of the real network's tensor, or of
// parts of this tensor's gradient.
struct ComplexPart {
    float* numbers;  // of the parameter, or its gradient
    float* tensor;
    int size, columns;  // of the parameter
    int row_step, column_step;
    int first[2];
    float sign[2];  // 0: there is no second place
    int parts, part_stride;

    __device__ __forceinline__ int distance_of(int i) const {
        const int row = i / columns;
        return row * row_step + (i - row * columns) * column_step;
    }
};

extern "C" __global__ void __launch_bounds__(THREADS)
    make_real_parameters(const ComplexPart* complex_parts) {
    const ComplexPart part = complex_parts[blockIdx.y];
    for (int i = blockIdx.x * THREADS + threadIdx.x; i < part.size; i += gridDim.x * THREADS) {
        const float number = part.numbers[i];
        float* const at = part.tensor + part.distance_of(i);
        at[part.first[0]] = part.sign[0] * number;
        if (part.sign[1] != 0.0f) at[part.first[1]] = part.sign[1] * number;
    }
}

// Each lane has a number, each warp every eighth part of its gradient.
extern "C" __global__ void __launch_bounds__(THREADS)
    make_complex_gradients(const ComplexPart* complex_parts) {
    __shared__ float sums[WARPS][32];
    const ComplexPart part = complex_parts[blockIdx.y];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int first = 32 * blockIdx.x; first < part.size; first += 32 * gridDim.x) {
        const int own = min(first + lane, part.size - 1);
        const float* const at = part.tensor + part.distance_of(own);
        float sum = 0.0f;
#pragma unroll 4
        for (int i = warp; i < part.parts; i += WARPS) {
            const float* const its = at + (long long)i * part.part_stride;
            sum += part.sign[0] * its[part.first[0]];
            if (part.sign[1] != 0.0f) sum += part.sign[1] * its[part.first[1]];
        }
        sums[warp][lane] = sum;
        __syncthreads();
        if (warp == 0 && first + lane < part.size) {
            for (int other = 1; other < WARPS; ++other) sum += sums[other][lane];
            part.numbers[own] = sum;
        }
        __syncthreads();
    }
}
