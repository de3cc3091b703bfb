// The number of samples of a pixel, and the mean of their offsets.

const MOST_SAMPLES = 256;
const FIRST_SAMPLES = 16;

// Returns the number of samples of a pixel that is `across` pixels of the image wide, as `render`
// chooses it, but more where `render` takes one sample although the pixel covers several of the image.
function samplesOf(network, across) {
  const thin = network.width === 1 || network.height === 1;
  if (network.footprint) {
    if (thin && !network.mosaic) across = Math.max(across, 1);
    if (across <= 0.5) return 1;
    return Math.min(MOST_SAMPLES, Math.ceil(256 * across * across - 1e-9));
  }
  if (across > 1) return Math.min(FIRST_SAMPLES, Math.ceil(across * across - 1e-9));
  return network.mode === "bilevel" && across < 1 ? 4 : 1;
}

function offsetsMean(count) {
  let mean = 0;
  for (let i = 0; i < count; ++i) mean += (((i + 0.5) * 0.6180339887498949) % 1) / count;
  return [0.5, mean];
}
