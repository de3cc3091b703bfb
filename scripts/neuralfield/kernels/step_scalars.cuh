// What the update of one step needs to know of it.
#pragma once

struct Scalars {
    float rate;  // of Adam with its correction for the first moment; else the learning rate
    float inverse_correction2;
    float learning_rate;
};
