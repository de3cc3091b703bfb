// The decoder of docs/format.md: decodeCoded(bytes) gives {width, height, levels}, levels as RGBA.
// All numbers are integers of 32 bits, as in the other decoders, and the pixels are the same.

const NEIGHBOURS = [[0, -1], [-1, 0], [-1, -1], [-1, 1], [0, -2], [-2, 0], [-1, -2], [-1, 2],
  [-2, -1], [-2, 1], [-2, -2], [-2, 2], [0, -3], [-3, 0]];
const INPUTS = 18;
const AROUND = [[[0, -1], [0, 1]], [[-1, 0], [1, 0]], [[-1, -1], [-1, 1], [1, -1], [1, 1]],
  [[0, -2], [0, 2]], [[-2, 0], [2, 0]]];
const FINE = Int32Array.from({length: 64}, (_, j) => 32768 - (j * 5678 >> 10) + (j * j >> 11));
const ROOTS = Int32Array.from(FINE, (_, i) => {
  let n = Math.floor(2 ** (15 - i / 64)) + 2;
  while (BigInt(n) ** 64n > 1n << BigInt(960 - i)) n--;
  return n;
});

const limit = (value, least, most) => value < least ? least : value > most ? most : value;
const clamp = (value) => value < -32767 ? -32767 : value > 32767 ? 32767 : value;

function cumulative(v, largest, mean, scale) {
  if (v === -largest) return 0;
  if (v > largest) return 65536;
  const x = (2 * v - 1) * 128 - mean;
  const octaves = Math.imul(Math.min(Math.abs(x), 65535), ROOTS[scale & 63]) >> 11 + (scale >> 6);
  const whole = octaves >> 12;
  const mass = whole > 15 ? 0 : (ROOTS[octaves >> 6 & 63] * FINE[octaves & 63] >> 15) >> whole;
  const free = 65535 - 2 * largest, share = free * mass >> 16;
  return v + largest + (x <= 0 ? share : free - share);
}

/** Return a function that reads the next symbol. */
function symbolReader(bytes, place, count) {
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  const states = Int32Array.from({length: count}, (_, i) => view.getInt32(place + 4 * i, true));
  place += 4 * count;
  let turn = 0;
  return (largest, mean, scale) => {
    let state = states[turn], least = -largest, most = largest, start, end;
    const slot = state & 65535;
    let v = limit(mean + 128 >> 8, least, most);
    for (let attempt = 0; ; attempt++) {
      start = cumulative(v, largest, mean, scale);
      if (slot < start) {
        most = v - 1;
        v = attempt < 2 ? most : least + most >> 1;
        continue;
      }
      end = cumulative(v + 1, largest, mean, scale);
      if (slot < end) break;
      least = v + 1;
      v = attempt < 2 ? least : least + most >> 1;
    }
    state = (end - start) * (state >> 16) + slot - start;
    while (state < 8388608) state = state << 8 | bytes[place++];
    states[turn] = state;
    turn = (turn + 1) % count;
    return v;
  };
}

/** Compute the outputs of a layer. */
function apply({weights, start, bits, columns}, inputs, outputs) {
  for (let o = 0, w = 0; o < start.length; o++) {
    let sum = start[o];
    for (let i = 0; i < columns; i++, w++) sum = sum + Math.imul(weights[w], inputs[i]) | 0;
    outputs[o] = clamp(sum >> bits);
  }
}

function applyResidual(layer, inputs, outputs) {
  apply(layer, inputs, outputs);
  for (let i = 0; i < INPUTS; i++) outputs[i] = clamp(Math.max(outputs[i], 0) + inputs[i]);
}

/** Read grid k; grids are {rows, columns, values}, the finest first. */
function readGrid(grids, k, largest, rate, symbol) {
  const {rows, columns, values} = grids[k], stride = columns + 6;
  const padded = new Int8Array((rows + 3) * stride);
  const offsets = Int32Array.from(NEIGHBOURS, ([dy, dx]) => dy * stride + dx);
  const [x, h, h2, z] = [0, 0, 0, 0].map(() => new Int32Array(INPUTS));
  const above = grids.slice(k + 1, k + 5);
  applyResidual(rate[0], x, h);
  applyResidual(rate[1], h, h2);
  apply(rate[2], h2, z);
  const [meanOfZeros, scaleOfZeros] = z; // what all inputs 0 give, which is frequent
  for (let wave = 0; wave < columns + 3 * (rows - 1); wave++) {
    const end = Math.min(rows, Math.floor(wave / 3) + 1);
    for (let row = Math.max(0, Math.ceil((wave - columns + 1) / 3)); row < end; row++) {
      const column = wave - 3 * row, place = (row + 3) * stride + column + 3;
      let any = 0;
      for (let i = 0; i < 14; i++) any |= x[i] = padded[place + offsets[i]] << 8;
      for (let i = 0; i < above.length; i++) {
        const grid = above[i], up = i + 1;
        any |= x[14 + i] = grid.values[(row >> up) * grid.columns + (column >> up)] << 8;
      }
      let mean = meanOfZeros, scale = scaleOfZeros;
      if (any) {
        applyResidual(rate[0], x, h);
        applyResidual(rate[1], h, h2);
        apply(rate[2], h2, z);
        mean = z[0];
        scale = z[1];
      }
      const value = symbol(largest, limit(mean, -16384, 16384), limit(scale >> 2, -384, 447));
      values[row * columns + column] = padded[place] = value;
    }
  }
}

/** Enlarge by 2 to rows x columns: along columns of the plane, then along rows. */
function enlarged(plane, taps, bits, rows, columns) {
  const half = 1 << bits >> 1, [a, b, c, d] = taps, weights = [[a, b, c, d], [d, c, b, a]];
  const along = (source, target, count, length, step, lines, lineStep, targetStep, targetLine) => {
    for (let i = 0; i < length; i++) {
      const [p, q, r, s] = weights[i & 1], first = (i >> 1) - 2 + (i & 1);
      const [w, x, y, z] = [0, 1, 2, 3].map((n) => limit(first + n, 0, count - 1) * step);
      for (let j = 0; j < lines; j++) {
        const at = j * lineStep;
        target[i * targetStep + j * targetLine] = clamp((p * source[at + w] + q * source[at + x]
          + r * source[at + y] + s * source[at + z] + half) >> bits);
      }
    }
  };
  const width = plane.columns, tall = new Int16Array(rows * width);
  along(plane.values, tall, plane.rows, rows, width, width, 1, width, 1);
  const values = new Int16Array(rows * columns);
  along(tall, values, width, columns, 1, rows, width, 1, columns);
  return {rows, columns, values};
}

/** The means of the values of a plane around each place; rows and columns end in copies. */
function surroundings({rows, columns, values}) {
  return AROUND.map((offsets) => {
    const means = new Int16Array(rows * columns);
    for (let y = 0, i = 0; y < rows; y++) {
      for (let x = 0; x < columns; x++, i++) {
        let sum = 0;
        for (const [down, across] of offsets) {
          const row = limit(y + down, 0, rows - 1), column = limit(x + across, 0, columns - 1);
          sum += values[row * columns + column];
        }
        means[i] = sum / offsets.length;
      }
    }
    return {rows, columns, values: means};
  });
}

function synthesised(planes, [hidden, output], channels) {
  const {rows, columns} = planes[0], count = rows * columns, units = hidden.start.length;
  const inputs = new Int32Array(units + planes.length), latents = inputs.subarray(units);
  const between = new Int32Array(units), out = new Int32Array(channels);
  const pixels = new Int16Array(count * channels); // channels last
  for (let i = 0; i < count; i++) {
    for (let k = 0; k < planes.length; k++) latents[k] = planes[k].values[i];
    apply(hidden, latents, between);
    for (let o = 0; o < units; o++) inputs[o] = between[o] < 0 ? 0 : between[o];
    apply(output, inputs, out);
    pixels.set(out, i * channels);
  }
  return pixels;
}

function decodeCoded(bytes) {
  let place = 4;
  const number = () => {
    let value = 0, shift = 0, byte;
    do {
      byte = bytes[place++];
      value |= (byte & 127) << shift;
      shift += 7;
    } while (byte > 127);
    return value;
  };
  const width = number(), height = number();
  const [, channels, gridCount, units, lanes] = bytes.subarray(place, place += 5);
  const largest = bytes.subarray(place, place += gridCount);
  const shapes = [[INPUTS, INPUTS], [INPUTS, INPUTS], [2, INPUTS], [gridCount - 1, 4],
    [units, gridCount + 5], [channels, units + gridCount + 5]];
  const counts = shapes.flatMap(([rows, columns], i) => [rows * columns, i === 3 ? 0 : rows]);
  const parts = counts.map((count) => count ? [bytes[place++], bytes[place++]] : [0, 0]);
  const symbol = symbolReader(bytes, place, 1 << lanes);
  const values = counts.map((count, i) => {
    const [code, scale] = parts[i], most = (1 << (code & 15)) - 1;
    return Int32Array.from({length: count}, () => most && symbol(most, 0, 8 * scale - 384));
  });
  const layers = shapes.map(([rows, columns], i) => {
    const bits = parts[2 * i][0] >> 4, shift = 8 + bits - (parts[2 * i + 1][0] >> 4);
    const bias = values[2 * i + 1], half = 1 << bits >> 1;
    const start = Int32Array.from({length: rows}, (_, o) => ((bias[o] || 0) << shift) + half);
    return {weights: values[2 * i], start, bits, columns};
  });
  const grids = Array.from(largest, (_, k) => {
    const rows = Math.ceil(height / 2 ** k), columns = Math.ceil(width / 2 ** k);
    return {rows, columns, values: new Int16Array(rows * columns)};
  });
  let planes = [];
  for (let k = gridCount - 1; k >= 0; k--) {
    const {rows, columns, values: own} = grids[k];
    if (largest[k]) readGrid(grids, k, largest[k], layers, symbol);
    const {weights, bits} = layers[3], taps = weights.subarray(4 * k, 4 * k + 4);
    planes = planes.map((plane) => enlarged(plane, taps, bits, rows, columns));
    planes.unshift({rows, columns, values: own.map((value) => value << 8)});
  }
  planes.push(...surroundings(planes[0]));
  const pixels = synthesised(planes, layers.slice(4), channels);
  const levels = new Uint8ClampedArray(4 * width * height).fill(255);
  for (let i = 0; i < width * height; i++) {
    for (let c = 0; c < (channels < 4 ? 3 : 4); c++) {
      const value = pixels[i * channels + (channels === 1 ? 0 : c)];
      levels[4 * i + c] = limit(value * 255 + 8192 >> 14, 0, 255);
    }
  }
  return {width, height, levels};
}
