// How many samples a pixel has, and where they lie.

const MOST_SAMPLES = 256;
const FIRST_SAMPLES = 16;

// As many samples of a pixel as `render` takes; `across` is its side in pixels of the image. Where
// `render` would take one of several pixels that a pixel covers, more are taken here.
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
