// Packs the arrays that passes read: weights of networks, and weights that resample a residual.

// Maximum texels of a residual that a pixel depends on along an axis, and maximum points averaged.
const MOST_TAPS = 32;
const MOST_TAP_POINTS = 32;

// Packs weights in the order in which a pass reads them: the biases, then for each input its weights.
function packWeights(network, passes, arrays, bytes) {
  const packed = new Float32Array(bytes / 4);
  for (const pass of passes) {
    if (!pass.block) continue;
    const out = packed.subarray(pass.offset / 4, pass.offset / 4 + 4 * pass.block);
    if (pass.layer === -1) {
      const frequencies = arrays["encoding.frequencies"];
      const count = network.frequencies;
      for (let i = 0; i < count; ++i) {
        out[2 * i] = frequencies[i];
        out[2 * i + 1] = frequencies[count + i];
      }
      continue;
    }
    const layer = network.layers[pass.layer];
    const { weight, bias } = affine(layer, pass.layer, arrays);
    const isLinear = layer.activation !== "variable sine" && layer.activation !== "gabor";
    const scale = isLinear ? layer.frequency : 1;
    const width = layer.fanOut / layer.factors;
    const sums = pass.texels * layer.factors;
    for (let sum = 0; sum < sums; ++sum) {
      const factor = sum % layer.factors;
      for (let c = 0; c < 4; ++c) {
        const output = 4 * (pass.first + Math.floor(sum / layer.factors)) + c;
        if (output >= width) continue;
        const column = factor * width + output;
        out[4 * sum + c] = scale * bias(column);
        for (let input = 0; input < layer.fanIn; ++input) {
          out[4 * (sums + input * sums + sum) + c] = scale * weight(input, column);
        }
      }
    }
  }
  return packed;
}

// Returns the real weights and biases of a layer. A complex value is two neighbouring real ones, and a
// complex weight A + i B is [[A, B], [-B, A]].
function affine(layer, index, arrays) {
  const name = (part) => arrays[`layers.${index}.${part}`];
  const biases = name("bias");
  if (!layer.complex) {
    const weights = name("weight");
    return {
      weight: (input, output) => weights[input * layer.fanOut + output],
      bias: (output) => (biases ? biases[output] : 0),
    };
  }
  const step = layer.complex === "last" ? 1 : 2;
  const columns = layer.fanOut / step;
  if (layer.complex === "first") {
    const weights = name("weight");
    return {
      weight: (input, output) => (output % 2 ? 0 : weights[input * columns + output / 2]),
      bias: (output) => (output % 2 ? 0 : biases[output / 2]),
    };
  }
  const [real, imaginary] = [name("real"), name("imaginary")];
  return {
    weight: (input, output) => {
      const isOdd = step === 2 ? output % 2 : 0;
      const at = (input >> 1) * columns + Math.floor(output / step);
      if (input % 2 === isOdd) return real[at];
      return isOdd ? imaginary[at] : -imaginary[at];
    },
    bias: (output) => biases[step === 2 ? (output % 2) * columns + (output >> 1) : output],
  };
}

// Returns the elements of an axis that the means over `count` pixels depend on, and their weights:
// Lanczos at `points` points of each pixel, as in `render`. Pixels begin at `start`, `step` apart.
function lanczosTaps(length, start, step, count, points) {
  const firsts = new Float32Array(count);
  const weights = new Float64Array(count * MOST_TAPS);
  const across = Math.min(step, MOST_TAPS - 7);
  const sinc = (x) => (x === 0 ? 1 : Math.sin(Math.PI * x) / (Math.PI * x));
  let taps = 0;
  for (let i = 0; i < count; ++i) {
    for (let p = 0; p < points; ++p) {
      const offset = ((p + 0.5) / points - 0.5) * across;
      const position = Math.min(length - 0.5, Math.max(-0.5, start + (i + 0.5) * step + offset - 0.5));
      const first = Math.floor(position) - 2;
      if (p === 0) firsts[i] = first;
      const near = range(6).map((k) => {
        const distance = position - first - k;
        return first + k < 0 || first + k >= length ? 0 : sinc(distance) * sinc(distance / 3);
      });
      const sum = points * near.reduce((total, weight) => total + weight, 0);
      near.forEach((weight, k) => { weights[i * MOST_TAPS + first - firsts[i] + k] += weight / sum; });
      taps = Math.max(taps, first - firsts[i] + 6);
    }
  }
  return { firsts, weights, taps };
}
