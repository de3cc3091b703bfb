// GLSL for every pass of a network, generated for its shape.
//
// A batch of points is in array textures of CELLS_ACROSS columns. Each cell has PLANES points: layer i
// of a texture belongs to point i % PLANES. A fragment computes all points of its cell, so that it
// reads a weight once for all of them. A texel holds four values of a network's layer; a pass computes
// several texels, so that it reads an input once for all of them. Weights are in a uniform block, in
// the order in which the loop of the pass reads them.

const CELLS_ACROSS = 128;

// Points of a cell: 2 on a GPU, which is limited by its reads of values, and 8 in a software renderer,
// which is limited by its reads of weights.
let PLANES = 2;

const HEAD = `#version 300 es
precision highp float;
precision highp int;
precision highp sampler2D;
precision highp sampler2DArray;
precision highp usampler2D;
`;

const FULL_VERTEX = `${HEAD}
void main() {
  gl_Position = vec4(vec2(gl_VertexID & 1, gl_VertexID >> 1) * 4.0 - 1.0, 0.0, 1.0);
}`;

// Pixels of a batch: a run of a region's pixels, row by row, or those that a list names.
const PIXELS = `
uniform usampler2D listed;
uniform ivec4 region;  // left, top and width in pixels of the tile; the first pixel of the run
uniform ivec2 batch;  // samples of a pixel; whether pixels are listed
ivec2 pixel_of(int slot) {
  int number = region.w + slot;
  if (batch.y != 0) number = int(texelFetch(listed, ivec2(number & 255, number >> 8), 0).r);
  return region.xy + ivec2(number % region.z, number / region.z);
}`;

const pointSource = () => `${PIXELS}
uniform vec4 place;  // position of the tile's corner, and the step from a pixel to the next
uniform vec4 spread;  // sides that the samples of a pixel are spread over; mean of their offsets
vec2 point(int plane) {
  int cell = int(gl_FragCoord.y) * ${CELLS_ACROSS} + int(gl_FragCoord.x);
  int number = cell * ${PLANES} + plane;
  int slot = number / batch.x;
  vec2 at = place.xy + (vec2(pixel_of(slot)) + 0.5) * place.zw;
  if (batch.x == 1) return at;
  float index = float(number - slot * batch.x) + 0.5;
  vec2 offset = vec2(index / float(batch.x), fract(index * 0.6180339887498949));
  return at + (offset - spread.zw) * spread.xy;
}`;

// The GPU's sine may be off by 5e-4 and more if its argument is large; this one by 1e-6.
const SINE = `vec4 sine(vec4 x) {
  vec4 turns = round(x * 0.3183098861837907);
  vec4 r = (x - turns * 3.140625) - turns * 9.676535897932e-4;
  vec4 s = r * r;
  r *= 1.0 + s * (-0.16666667 + s * (8.3333333e-3 + s * (-1.9841270e-4
    + s * (2.7557319e-6 - s * 2.5052108e-8))));
  return r * (1.0 - 2.0 * (turns - 2.0 * floor(turns * 0.5)));
}`;

const number = (value) => {
  const text = String(Math.fround(value));
  return /[.e]/.test(text) ? text : `${text}.0`;
};

// Activations of four values z. If the frequency is only a factor, the weights
// contain it already. For a wavelet, z is the real and imaginary parts of two numbers.
const ACTIVATIONS = {
  sine: () => "sine(z)",
  "variable sine": ({ frequency }) => `sine(${number(frequency)} * (abs(z) + 1.0) * z)`,
  gaussian: () => "exp(-(z * z))",
  relu: () => "max(z, vec4(0.0))",
  tanh: () => "1.0 - 2.0 / (exp(2.0 * clamp(z, vec4(-15.0), vec4(15.0))) + 1.0)",
  sigmoid: () => "1.0 / (1.0 + exp(clamp(-z, vec4(-80.0), vec4(80.0))))",
  product: () => "z",
  gabor: ({ frequency, scale }) => `exp(${number(-scale * scale)} * (z.xxzz * z.xxzz + z.yyww * z.yyww)
    - ${number(frequency)} * z.yyww)
    * sine(${number(frequency)} * z.xxzz + vec4(1.5707963267948966, 0.0, 1.5707963267948966, 0.0))`,
};

const outputs = (count) =>
  range(count).map((i) => `layout(location = ${i}) out vec4 out${i};`).join("\n");

const range = (count) => Array.from({ length: count }, (_, i) => i);

const planes = (line, separator = "\n  ") => range(PLANES).map(line).join(separator);

// One pass of a layer: `texels` texels of its values, each a product of `layer.factors` sums.
// `inputs` is the number of input values; `direct` is given if they are made from the coordinates.
function layerShader(layer, { inputs, texels, direct, last }) {
  const sums = texels * layer.factors;
  const columns = direct ? inputs : 4 * Math.ceil(inputs / 4);
  const each = (line) => planes((p) => range(sums).map((i) => line(p, i)).join(" "));
  const add = (component, at) =>
    range(sums).map((i) => `m = w[${at} + ${i}]; ${planes((p) => `s${p}_${i} += ${component(p)} * m;`, " ")}`).join("\n    ");
  let body;
  if (direct) {
    const values = planes((p) => `${direct.type} v${p} = ${direct.of(`point(${p})`)};`);
    body = `${values}
    ${range(inputs).map((k) => add((p) => `v${p}[${k}]`, sums * (1 + k))).join("\n    ")}`;
  } else {
    const size = columns / 4;
    body = `ivec2 cell = ivec2(gl_FragCoord.xy);
  for (int k = 0, at = ${sums}; k < ${size}; ++k, at += ${4 * sums}) {
    ${planes((p) => `vec4 v${p} = texelFetch(values, ivec3(cell, k * ${PLANES} + ${p}), 0);`, "\n    ")}
    ${range(4).map((c) => add((p) => `v${p}.${"xyzw"[c]}`, `at + ${c * sums}`)).join("\n    ")}
  }`;
  }
  const product = (p, texel) =>
    range(layer.factors).map((f) => `s${p}_${texel * layer.factors + f}`).join(" * ");
  const finish = last
    ? planes((p) => last.finish(p))
    : planes((p) => range(texels).map((i) => `out${i * PLANES + p} = activation(${product(p, i)});`).join(" "));
  return `${HEAD}
layout(std140) uniform Weights { vec4 w[${sums * (1 + columns)}]; };
uniform sampler2DArray values;
${direct || last?.declarations ? pointSource() : ""}
${SINE}
${direct ? direct.declarations : ""}
${layer.activation ? `vec4 activation(vec4 z) { return ${ACTIVATIONS[layer.activation](layer)}; }` : ""}
${last ? last.declarations : ""}
${outputs(texels * PLANES)}
void main() {
  vec4 m;
  ${each((p, i) => `vec4 s${p}_${i} = w[${i}];`)}
  ${body}
  ${finish}
}`;
}

// The value of a network, given the sum of its last layer.
function outputOf(network, sum) {
  if (network.output !== "sigmoid") return `0.5 + 0.5 * ${sum}`;
  return `1.0 / (1.0 + exp(clamp(${number(-network.steepness)} * ${sum}, vec4(-80.0), vec4(80.0))))`;
}

// The end of a network: its value, times its weight if several networks share an image.
function lastOf(network) {
  const value = (p) => outputOf(network, `s${p}_0`);
  if (!network.mosaic) return { declarations: "", finish: (p) => `out${p} = ${value(p)};` };
  return {
    declarations: `
uniform sampler2DArray sum;  // over the previous networks
uniform bool first;
uniform vec4 pixels;  // factor and offset that convert a position to px of the image
uniform vec4 fades;  // px at which each side begins to fade: left, right, top, bottom
uniform vec4 gradients;  // of the fades, per px; 0 where a network reaches the image's edge
float weight_at(vec2 p) {  // the product of the fades of all sides
  vec4 beyond = p.xxyy * pixels.xxyy + pixels.zzww - fades;
  vec4 fade = 0.5 + 0.5 * cos(3.141592653589793 * clamp(beyond * gradients, 0.0, 1.0));
  return fade.x * fade.y * fade.z * fade.w;
}`,
    finish: (p) => `out${p} = weight_at(point(${p})) * (${value(p)});
  if (!first) out${p} += texelFetch(sum, ivec3(gl_FragCoord.xy, ${p}), 0);`,
  };
}

// Factors and offsets that convert coordinates to those of corners, from 0 to 1 along both axes.
function cornersOf({ width, height }) {
  const longer = Math.max(width, height);
  const along = (place) => [width, height].map((side) => number(place(side) / 2 / Math.max(side - 1, 1)));
  return { factors: along(() => longer), starts: along((side) => side - 1) };
}

// Coordinates as the inputs of a first layer.
function directInputs(network) {
  if (network.encoding === "identity") return { type: "vec2", of: (p) => p, declarations: "" };
  const { factors, starts } = cornersOf(network);
  return {
    type: "vec3",
    of: (p) => `corner(${p})`,
    declarations: `vec3 corner(vec2 p) { return vec3(1.0, p * vec2(${factors}) + vec2(${starts})); }`,
  };
}

// A pass of an encoding: `body` sets texels e0, e1 ... of a position p.
function encodingShader(declarations, texels, body) {
  const parts = range(texels).map((i) => `out vec4 e${i}`).join(", ");
  return `${HEAD}
${declarations}
${pointSource()}
${SINE}
float turn(float turns) { return sine(vec4(6.283185307179586 * (turns - round(turns)))).x; }
${outputs(texels * PLANES)}
void encode(vec2 p, ${parts}) {
  ${body}
}
void main() {
  ${planes((p) => `encode(point(${p}), ${range(texels).map((i) => `out${i * PLANES + p}`).join(", ")});`)}
}`;
}

// Random Fourier features, and Chebyshev polynomials after them. All passes share one shader, because
// drivers take long to compile a shader.
function fourierShader(network, texels) {
  const { frequencies: count, degree } = network;
  const polynomials = `int number = index - ${2 * count};
  if (number / 2 > ${degree}) return 0.0;
  float x = p[number & 1], value = 1.0, next = x;
  for (int i = 0; i < number / 2; ++i) {
    float last = value;
    value = next;
    next = 2.0 * x * next - last;
  }
  return value;`;
  const declarations = `layout(std140) uniform Weights { vec4 w[${Math.ceil(count / 2)}]; };
uniform int firstTexel;
float turn(float turns);
float feature(int index, vec2 p) {
  if (index < ${2 * count}) {
    int row = index % ${count};
    vec4 two = w[row >> 1];
    return turn(dot(p, (row & 1) == 1 ? two.zw : two.xy) + (index < ${count} ? 0.0 : 0.25));
  }
  ${degree < 0 ? "return 0.0;" : polynomials}
}`;
  const lines = range(texels).map((i) => {
    const parts = range(4).map((c) => `feature(at + ${4 * i + c}, p)`);
    return `e${i} = vec4(${parts.join(", ")});`;
  });
  return encodingShader(declarations, texels, ["int at = 4 * firstTexel;", ...lines].join("\n  "));
}

// Features of grids: weighted sums of the corners around a point. Table rows are whole texels.
function hashShader(network, first, texels) {
  const { features, levels } = network;
  const stride = Math.ceil(features / 4);
  const from = Math.floor((4 * first) / features);
  const until = Math.min(levels.length, Math.ceil((4 * (first + texels)) / features));
  const lines = [];
  for (let index = from; index < until; ++index) {
    const { resolution, start, rows, columns, skipped, is_hashed: isHashed } = levels[index];
    const row = isHashed
      ? `(corner.x ^ (corner.y * 2654435761u)) & ${rows - 1}u`
      : `corner.y * ${columns}u + corner.x - ${skipped}u`;
    lines.push(`{
    vec2 position = unit * ${number(resolution)};
    vec2 cell = clamp(floor(position), 0.0, ${number(resolution - 1)});
    vec2 part = position - cell;
    for (int i = 0; i < 4; ++i) {
      uvec2 corner = uvec2(cell) + uvec2(i & 1, i >> 1);
      int row = int(${start}u + (${row}));
      vec2 near = mix(1.0 - part, part, vec2(i & 1, i >> 1));
      ${range(stride).map((s) => `f[${(index - from) * stride + s}] += near.x * near.y * entry(row * ${stride} + ${s});`).join("\n      ")}
    }
  }`);
  }
  const value = (index) => {
    const level = Math.floor(index / features);
    const feature = index % features;
    return level < levels.length
      ? `f[${(level - from) * stride + (feature >> 2)}].${"xyzw"[feature & 3]}`
      : "0.0";
  };
  const ends = range(texels).map(
    (i) => `e${i} = vec4(${range(4).map((c) => value(4 * (first + i) + c)).join(", ")});`,
  );
  const table = `uniform sampler2D table;
vec4 entry(int at) { return texelFetch(table, ivec2(at & ${TABLE_ACROSS - 1}, at / ${TABLE_ACROSS}), 0); }`;
  const body = `vec2 unit = (p + 1.0) * 0.5;
  vec4 f[${(until - from) * stride}];
  for (int i = 0; i < ${(until - from) * stride}; ++i) f[i] = vec4(0.0);
  ${lines.join("\n  ")}
  ${ends.join("\n  ")}`;
  return encodingShader(table, texels, body);
}

const TABLE_ACROSS = 2048;

// Averages the points of a batch to pixels, each of which is drawn as a point of a tile.
const REDUCE_VERTEX = `${HEAD}
${PIXELS}
uniform vec2 size;
flat out int slot;
flat out ivec2 pixel;
void main() {
  slot = gl_VertexID;
  pixel = pixel_of(slot);
  gl_Position = vec4((vec2(pixel) + 0.5) / size * 2.0 - 1.0, 0.0, 1.0);
  gl_PointSize = 1.0;
}`;

function reduceShader(channels) {
  const colour = { 1: "vec4(mean.xxx, 1.0)", 3: "vec4(mean.xyz, 1.0)", 4: "mean" }[channels];
  const kept = { 1: "xxxx", 3: "xyzz", 4: "xyzw" }[channels];
  return `${HEAD}
uniform ivec2 batch;
uniform sampler2DArray values;
uniform sampler2D residual;
uniform sampler2D taps;  // for each column (r) and row (g) of the tile: a first texel, then weights
uniform int tapCount;  // 0 where no residual is added
flat in int slot;
flat in ivec2 pixel;
layout(location = 0) out vec4 colour;
layout(location = 1) out vec4 uneven;  // whether the samples differ so much that more are needed
vec4 correction() {
  vec4 total = vec4(0.0);
  ivec2 last = textureSize(residual, 0) - 1;
  float left = texelFetch(taps, ivec2(pixel.x, 0), 0).r;
  float top = texelFetch(taps, ivec2(pixel.y, 0), 0).g;
  for (int y = 0; y < tapCount; ++y) {
    vec4 row = vec4(0.0);
    for (int x = 0; x < tapCount; ++x) {
      ivec2 at = clamp(ivec2(left, top) + ivec2(x, y), ivec2(0), last);
      row += texelFetch(taps, ivec2(pixel.x, 1 + x), 0).r * texelFetch(residual, at, 0);
    }
    total += texelFetch(taps, ivec2(pixel.y, 1 + y), 0).g * row;
  }
  return total;
}
void main() {
  vec4 total = vec4(0.0), lowest = vec4(1e30), highest = vec4(-1e30);
  for (int i = 0; i < batch.x; ++i) {
    int number = slot * batch.x + i;
    int cell = number / ${PLANES};
    ivec3 at = ivec3(cell % ${CELLS_ACROSS}, cell / ${CELLS_ACROSS}, number % ${PLANES});
    vec4 value = texelFetch(values, at, 0).${kept};
    total += value;
    lowest = min(lowest, value);
    highest = max(highest, value);
  }
  vec4 mean = total / float(batch.x);
  vec4 range = highest - lowest;
  float most = max(max(range.x, range.y), max(range.z, range.w));
  colour = clamp(clamp(${colour}, 0.0, 1.0) + correction(), 0.0, 1.0);
  uneven = vec4(most > 0.1 ? 1.0 : 0.0);
}`;
}

// The training image, resized by Lanczos as Pillow does it, or by the nearest pixel.
const FILTER_SHADER = `${HEAD}
uniform sampler2D image;
uniform vec4 place;  // px of the image at the tile's corner, and the step from a pixel to the next
uniform bool nearest;
layout(location = 0) out vec4 colour;
layout(location = 1) out vec4 uneven;
float lanczos(float x) {
  if (abs(x) >= 3.0) return 0.0;
  if (abs(x) < 1e-4) return 1.0;
  float a = 3.141592653589793 * x, b = a / 3.0;
  return sin(a) * sin(b) / (a * b);
}
void main() {
  uneven = vec4(0.0);
  ivec2 size = textureSize(image, 0);
  vec2 at = place.xy + gl_FragCoord.xy * place.zw;
  if (nearest) {
    colour = texelFetch(image, clamp(ivec2(floor(at)), ivec2(0), size - 1), 0);
    return;
  }
  vec2 scale = max(place.zw, 1.0);
  ivec2 from = max(ivec2(at - 3.0 * scale + 0.5), ivec2(0));
  ivec2 to = min(ivec2(at + 3.0 * scale + 0.5), size);
  vec4 total = vec4(0.0);
  float weights = 0.0;
  for (int y = from.y; y < to.y; ++y) {
    float down = lanczos((float(y) + 0.5 - at.y) / scale.y);
    for (int x = from.x; x < to.x; ++x) {
      float weight = down * lanczos((float(x) + 0.5 - at.x) / scale.x);
      vec4 texel = texelFetch(image, ivec2(x, y), 0);
      total += weight * vec4(texel.rgb * texel.a, texel.a);
      weights += weight;
    }
  }
  total /= weights;
  float alpha = clamp(total.a, 0.0, 1.0);
  colour = alpha > 0.0 ? vec4(clamp(total.rgb / alpha, 0.0, 1.0), alpha) : vec4(0.0);
}`;

// A tile on the screen, over a checkerboard where it is transparent.
const SHOW_VERTEX = `${HEAD}
uniform vec4 box;  // on the screen, in clip coordinates: left, top, right, bottom
out vec2 at;
void main() {
  at = vec2(gl_VertexID & 1, gl_VertexID >> 1);
  gl_Position = vec4(mix(box.xy, box.zw, at), 0.0, 1.0);
}`;

const SHOW_SHADER = `${HEAD}
uniform sampler2D tile;
uniform vec2 last;  // the middle of the tile's last texel that is inside the image
uniform vec3 checker[2];
in vec2 at;
out vec4 colour;
void main() {
  vec4 value = texture(tile, min(at, last));
  ivec2 square = ivec2(gl_FragCoord.xy) / 12;
  colour = vec4(mix(checker[(square.x + square.y) & 1], value.rgb, value.a), 1.0);
}`;
