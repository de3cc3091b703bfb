// Packs weights in float16, times their layer's frequency, as the stream that the fused passes
// read: first the matrices from the first layer to the last, then their transposes from the last
// layer to the second. In training, most passes launch this kernel only at the start of each call
// that takes steps: in between, update.cu keeps the stream up to date.
//
// Constants: MATRICES; MATRIX_ROWS, MATRIX_COLUMNS (real sizes), MATRIX_FACTORS, MATRIX_OFFSETS (in
// the parameters), FORWARD_STARTS, BACKWARD_STARTS (in the stream; -1: not in it).
#include "../weight_blocks.cuh"

extern "C" __global__ void pack_weights(const float* parameters, __half* stream) {
    constexpr int rows[MATRICES] = MATRIX_ROWS, columns[MATRICES] = MATRIX_COLUMNS;
    constexpr int offsets[MATRICES] = MATRIX_OFFSETS;
    constexpr float factors[MATRICES] = MATRIX_FACTORS;
    constexpr int forward[MATRICES] = FORWARD_STARTS, backward[MATRICES] = BACKWARD_STARTS;
    int matrix = blockIdx.y;
    int count = rows[matrix] * columns[matrix];
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
        place_weight(factors[matrix] * parameters[offsets[matrix] + i], i / columns[matrix],
                     i % columns[matrix], rows[matrix], columns[matrix], stream + forward[matrix],
                     backward[matrix] >= 0 ? stream + backward[matrix] : nullptr);
}
