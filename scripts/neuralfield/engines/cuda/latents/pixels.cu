// The synthesis of pixels from enlarged latents: squared errors, and gradients of their sum.
// Reference: `LatentNetwork.pixels`.
//
// A warp treats 16 pixels that follow each other in the image. Their inputs and the gradients for
// them come in pairs, so that a lane reads the two values that it holds as one word: the enlarged
// latents of all grids, the sums of latents around, and 1, for biases.
//
// Constants: PIXEL_WEIGHTS (of both matrices), BLOCKS, ERROR_SCALE (factor on gradients in fp16).

#include "grids.cuh"
#include "products.cuh"

#define TILES ((HIDDEN + 7) / 8)  // of hidden values
#define COLUMNS (PIXEL_INPUTS + 1)
#define DEPTH (HIDDEN + COLUMNS)
#define INPUT_TILES ((COLUMNS + 7) / 8)

// What a lane needs of 16 pixels, loaded while those before are computed.
struct Piece {
    Values<INPUT_TILES> inputs;
    float targets[2][2];

    __device__ __forceinline__ void load(const unsigned int* enlarged, const float* image,
                                         long long piece, long long end, long long count) {
        const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            const long long place = 16 * piece + g + 8 * h;
            const bool is_there = piece < end && place < count;
#pragma unroll
            for (int j = 0; j < INPUT_TILES; ++j) {
                const int pair = 4 * j + t;
                inputs.words[j][h] =
                    is_there && pair < INPUT_PAIRS ? enlarged[pair * count + place] : 0u;
            }
#pragma unroll
            for (int i = 0; i < 2; ++i)
                targets[h][i] = is_there && 2 * t + i < CHANNELS
                                    ? image[(2 * t + i) * count + place]
                                    : 0.0f;
        }
    }
};

extern "C" __global__ void __launch_bounds__(THREADS, 3)
    pixels(const unsigned int* __restrict__ enlarged, const float* __restrict__ image,
           const float* __restrict__ hidden_matrix, const float* __restrict__ output_matrix,
           unsigned int* __restrict__ gradients, float* __restrict__ partials,
           double* __restrict__ all_squares, long long count) {
    __shared__ float sums_of_block[PIXEL_WEIGHTS];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    for (int i = threadIdx.x; i < PIXEL_WEIGHTS; i += THREADS) sums_of_block[i] = 0.0f;
    __syncthreads();

    Factor<INPUT_TILES, TILES> hidden_forward;
    Factor<TILES, INPUT_TILES> of_hidden;
    Factor<TILES, 1> output_forward;
    Factor<1, TILES> of_outputs;
    Factor<INPUT_TILES, 1> direct_forward;
    Factor<1, INPUT_TILES> direct_backward;
    load_forward(hidden_forward, hidden_matrix, HIDDEN, COLUMNS, COLUMNS);
    load_forward(output_forward, output_matrix, CHANNELS, HIDDEN, DEPTH);
    load_forward(direct_forward, output_matrix + HIDDEN, CHANNELS, COLUMNS, DEPTH);
    load_backward(of_outputs, output_matrix, CHANNELS, HIDDEN, DEPTH);
    load_backward(of_hidden, hidden_matrix, HIDDEN, PIXEL_INPUTS, COLUMNS);
    load_backward(direct_backward, output_matrix + HIDDEN, CHANNELS, PIXEL_INPUTS, DEPTH);

    MatrixGradient<TILES, INPUT_TILES> hidden_gradient;
    MatrixGradient<TILES, 1> output_gradient;  // transposed
    MatrixGradient<INPUT_TILES, 1> direct_gradient;
    double squares = 0.0;
    const long long pieces = (count + 15) / 16, per_block = (pieces + BLOCKS - 1) / BLOCKS;
    const long long first = blockIdx.x * per_block, end = min(pieces, first + per_block);
    Piece next;
    next.load(enlarged, image, first + warp, end, count);
    for (long long piece = first + warp; piece < end; piece += WARPS) {
        const Piece now = next;
        next.load(enlarged, image, piece + WARPS, end, count);
        const Values<INPUT_TILES>& inputs = now.inputs;
        Values<TILES> hidden, of_sums;
        Sums<TILES> sums;
        add_products(sums, inputs, hidden_forward);
        const __half2 zero = __float2half2_rn(0.0f);
#pragma unroll
        for (int j = 0; j < TILES; ++j)
#pragma unroll
            for (int h = 0; h < 2; ++h)
                hidden.words[j][h] = word_of(__hmax2(
                    __floats2half2_rn(sums.numbers[j][2 * h], sums.numbers[j][2 * h + 1]), zero));
        Sums<1> out;
        add_products(out, hidden, output_forward);
        add_products(out, inputs, direct_forward);

        Values<1> errors;
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            float error[2];
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const bool is_there = 2 * t + i < CHANNELS && 16 * piece + g + 8 * h < count;
                error[i] = is_there ? out.numbers[0][2 * h + i] - now.targets[h][i] : 0.0f;
                squares += error[i] * error[i];
            }
            errors.words[0][h] = packed(ERROR_SCALE * error[0], ERROR_SCALE * error[1]);
        }

        Sums<TILES> gradient;
        add_products(gradient, errors, of_outputs);
#pragma unroll
        for (int j = 0; j < TILES; ++j)
#pragma unroll
            for (int h = 0; h < 2; ++h)
                of_sums.words[j][h] =
                    packed(gradient.numbers[j][2 * h], gradient.numbers[j][2 * h + 1]) &
                    __hgt2_mask(halves_of(hidden.words[j][h]), zero);
        Sums<INPUT_TILES> of_inputs;
        add_products(of_inputs, of_sums, of_hidden);
        add_products(of_inputs, errors, direct_backward);
#pragma unroll
        for (int h = 0; h < 2; ++h)
#pragma unroll
            for (int j = 0; j < INPUT_TILES; ++j) {
                const int pair = 4 * j + t;
                if (16 * piece + g + 8 * h < count && 2 * pair < PIXEL_INPUTS)
                    gradients[pair * count + 16 * piece + g + 8 * h] =
                        packed(of_inputs.numbers[j][2 * h], of_inputs.numbers[j][2 * h + 1]);
            }

        const Values<INPUT_TILES> turned_inputs = turned(inputs);
        const Values<1> turned_errors = turned(errors);
        hidden_gradient.add(turned(of_sums), turned_inputs);
        output_gradient.add(turned(hidden), turned_errors);
        direct_gradient.add(turned_inputs, turned_errors);
    }

    float* const output_sums = sums_of_block + HIDDEN * COLUMNS;
    for (int turn = 0; turn < WARPS; ++turn) {
        if (turn == warp) {
            hidden_gradient.add_to(sums_of_block, HIDDEN, COLUMNS, COLUMNS, 1);
            output_gradient.add_to(output_sums, HIDDEN, CHANNELS, 1, DEPTH);
            direct_gradient.add_to(output_sums + HIDDEN, COLUMNS, CHANNELS, 1, DEPTH);
        }
        __syncthreads();
    }
    store_sums(sums_of_block, PIXEL_WEIGHTS, partials, squares, all_squares);
}
