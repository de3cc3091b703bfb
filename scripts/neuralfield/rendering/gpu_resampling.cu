// Resamples an axis of an array, see `lanczos_weights` in corrected_renderer.py.
//
// Constants: THREADS.

// Computes each number as a sum of `taps` weighted numbers along the axis, which has `before`
// elements in `values` and `after` elements in `resampled`; an element has `inner` numbers. If
// `adds`, the sums are added to `resampled`. Grid: (count / THREADS,).
extern "C" __global__ __launch_bounds__(THREADS) void resample_axis(
    const float* __restrict__ values, const long long* __restrict__ indices,
    const float* __restrict__ weights, int taps, int before, int after, int inner, long long count,
    int adds, float* __restrict__ resampled) {
    const long long i = (long long)blockIdx.x * THREADS + threadIdx.x;
    if (i >= count) return;
    const int element = int(i / inner % after);
    const float* from = values + i / inner / after * before * inner + i % inner;
    float sum = adds ? resampled[i] : 0.0f;
    for (int tap = element * taps; tap < (element + 1) * taps; ++tap)
        sum = fmaf(weights[tap], from[indices[tap] * inner], sum);
    resampled[i] = sum;
}
