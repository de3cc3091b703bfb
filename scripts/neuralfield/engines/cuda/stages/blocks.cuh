// The block of the image that belongs to a slot of the batch, and the pixel that a step takes of
// it. Reference implementation: nn/blocks.py, where they are explained.
//
// Constants: WIDTH, HEIGHT, PIXELS (of the batch), BLOCK_ROWS, BLOCK_SIZES and BLOCK_STRIDES (lists
// of one length), BLOCK_NUMBER (a type in which products of these numbers do not overflow).
#pragma once

#include "../philox.cuh"

struct Block {
    using Number = BLOCK_NUMBER;

    Number left, top, width, height;

    __device__ __forceinline__ static Block of_slot(int slot) {
        const Number row = slot * Number(BLOCK_ROWS) / PIXELS;
        const Number first = first_slot(row), place = slot - first;
        const Number slots = first_slot(row + 1) - first;
        const Number left = place * WIDTH / slots, top = row * HEIGHT / BLOCK_ROWS;
        return {left, top, (place + 1) * WIDTH / slots - left,
                (row + 1) * HEIGHT / BLOCK_ROWS - top};
    }

    // Returns the index in the image of the pixel for the step after `step` others.
    __device__ __forceinline__ int pixel(int slot, long long step, unsigned long long seed) const {
        const unsigned int size = width * height, cycle = (unsigned int)step / size;
        const unsigned int phase = (unsigned int)step - cycle * size;
        const Words words = philox({(unsigned int)slot, 0u, cycle, STREAM_ORDER}, seed);
        const unsigned int start = __umulhi(words.w0, size);
        const unsigned int number = (start + Number(phase) * stride(size)) % size;
        const unsigned int line = number / (unsigned int)width;
        return (top + line) * WIDTH + left + (number - line * width);
    }

private:
    __device__ __forceinline__ static Number first_slot(Number row) {
        return (row * PIXELS + (BLOCK_ROWS - 1)) / BLOCK_ROWS;
    }

    __device__ __forceinline__ static unsigned int stride(unsigned int size) {
        constexpr unsigned int sizes[] = BLOCK_SIZES, strides[] = BLOCK_STRIDES;
        unsigned int found = strides[0];
#pragma unroll
        for (int i = 1; i < int(sizeof(sizes) / sizeof(sizes[0])); ++i)
            if (size == sizes[i]) found = strides[i];
        return found;
    }
};
