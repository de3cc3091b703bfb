// WebGPU compute shaders of a network, for browsers that have them: much faster than WebGL's passes.
//
// A workgroup computes all layers of `groupPoints` points. The workgroup's memory has the values of a
// layer in vectors of four. A thread computes four outputs of 8 points, so that it reads a weight once
// for 8 points and a value once for 4 outputs. A second shader averages points to pixels.

const POINTS_OF_THREAD = 8;

const WGSL_HEAD = `
struct About {
  region: vec4i,  // left, top and width in pixels of the tile; the first pixel of the run
  batch: vec4i,  // samples of a pixel; whether pixels are listed; pixels of the run; its first slot
  result: vec4i,  // cells of a plane of the result; whether this network is the region's first
  place: vec4f,  // position of the tile's corner, and the step from a pixel to the next
  spread: vec4f,  // sides that the samples of a pixel are spread over; mean of their offsets
  pixels: vec4f,  // factor and offset that convert a position to px of the image
  fades: vec4f,  // px at which each side begins to fade: left, right, top, bottom
  gradients: vec4f,  // of the fades, per px; 0 where a network reaches the image's edge
}
@group(0) @binding(0) var<uniform> about: About;
@group(0) @binding(1) var<storage, read_write> points: array<vec4f>;`;

const WGSL_POINT = `
@group(0) @binding(2) var<storage, read> listed: array<u32>;
fn point(number: u32) -> vec2f {
  let slot = i32(number) / about.batch.x;
  var pixel = about.region.w + slot;
  if (about.batch.y != 0) { pixel = i32(listed[slot]); }
  let place = about.region.xy + vec2i(pixel % about.region.z, pixel / about.region.z);
  let at = about.place.xy + (vec2f(place) + 0.5) * about.place.zw;
  if (about.batch.x == 1) { return at; }
  let index = f32(i32(number) - slot * about.batch.x) + 0.5;
  let offset = vec2f(index / f32(about.batch.x), fract(index * 0.6180339887498949));
  return at + (offset - about.spread.zw) * about.spread.xy;
}`;

const WGSL_SINE = `
fn sine(x: vec4f) -> vec4f {${sineBody("let", "var")}
}
fn turn(turns: f32) -> f32 { return sine(vec4f(6.283185307179586 * (turns - round(turns)))).x; }`;

const WGSL_WEIGHT = `
fn weight_at(p: vec2f) -> f32 {${weightBody("let", "about.")}
}`;

// Four inputs of the first layer at a position p, from number 4 * texel on.
function wgslEncoding(network) {
  if (network.encoding === "identity") {
    return "fn encode(texel: u32, p: vec2f) -> vec4f { return vec4f(p, 0.0, 0.0); }";
  }
  if (network.encoding === "corners") {
    const { factors, starts } = cornersOf(network);
    return `fn encode(texel: u32, p: vec2f) -> vec4f {
  return vec4f(1.0, p * vec2f(${factors}) + vec2f(${starts}), 0.0);
}`;
  }
  const four = `fn encode(texel: u32, p: vec2f) -> vec4f {
  let at = 4u * texel;
  return vec4f(feature(at, p), feature(at + 1u, p), feature(at + 2u, p), feature(at + 3u, p));
}`;
  if (network.encoding === "hashgrid") {
    const { features, levels } = network;
    return `
@group(0) @binding(4) var<storage, read> table: array<f32>;
@group(0) @binding(5) var<storage, read> levels: array<vec4u>;
fn feature(index: u32, p: vec2f) -> f32 {
  if (index >= ${features * levels.length}u) { return 0.0; }
  let level = levels[2u * (index / ${features}u)];
  let own = levels[2u * (index / ${features}u) + 1u];
  let position = (p + 1.0) * 0.5 * f32(level.x);
  let cell = clamp(floor(position), vec2f(0.0), vec2f(f32(level.x - 1u)));
  let part = position - cell;
  var sum = 0.0;
  for (var i = 0u; i < 4u; i++) {
    let side = vec2u(i & 1u, i >> 1u);
    let corner = vec2u(cell) + side;
    let hashed = (corner.x ^ (corner.y * 2654435761u)) & level.z;
    let row = level.y + select(corner.y * level.w + corner.x - own.x, hashed, own.y == 1u);
    let near = mix(1.0 - part, part, vec2f(side));
    sum += near.x * near.y * table[row * ${features}u + index % ${features}u];
  }
  return sum;
}
${four}`;
  }
  const { frequencies, degree } = network;
  return `
fn feature(index: u32, p: vec2f) -> f32 {
  if (index < ${2 * frequencies}u) {
    let row = index % ${frequencies}u;
    let two = weights[row >> 1u];
    let sum = dot(p, select(two.xy, two.zw, (row & 1u) == 1u));
    return turn(sum + select(0.25, 0.0, index < ${frequencies}u));
  }
  let polynomial = index - ${2 * frequencies}u;
  if (i32(polynomial / 2u) > ${degree}) { return 0.0; }
  let x = select(p.x, p.y, (polynomial & 1u) == 1u);
  var value = 1.0;
  var next = x;
  for (var i = 0u; i < polynomial / 2u; i++) {
    let last = value;
    value = next;
    next = 2.0 * x * next - last;
  }
  return value;
}
${four}`;
}

// The shader that computes the values of points. `passes` have the offsets of weights; `across` is the
// number of vectors for the values of a point.
function wgslNetwork(network, passes, { groupPoints, threads, across }) {
  const activations = network.layers.slice(0, -1).map((layer, index) =>
    `fn activation${index}(z: vec4f) -> vec4f { return ${ACTIVATIONS[layer.activation](layer)}; }`);
  const layerCode = (layer, index) => {
    const { texels, offset } = passes.find((pass) => pass.layer === index);
    const sums = texels * layer.factors;
    const columns = Math.ceil(layer.fanIn / 4);
    const base = offset / 16;
    return `
  if (thread < ${(texels * groupPoints) / POINTS_OF_THREAD}u) {
    let made = thread % ${texels}u;
    let first = ${POINTS_OF_THREAD}u * (thread / ${texels}u);
    for (var factor = 0u; factor < ${layer.factors}u; factor++) {
      let column = ${base}u + made * ${layer.factors}u + factor;
      var sums: array<vec4f, ${POINTS_OF_THREAD}>;
      for (var p = 0u; p < ${POINTS_OF_THREAD}u; p++) { sums[p] = weights[column]; }
      for (var k = 0u; k < ${columns}u; k++) {
        let at = column + ${sums}u * (1u + 4u * k);
        let a = weights[at];
        let b = weights[at + ${sums}u];
        let c = weights[at + ${2 * sums}u];
        let d = weights[at + ${3 * sums}u];
        for (var p = 0u; p < ${POINTS_OF_THREAD}u; p++) {
          let v = values[(first + p) * ${across}u + k];
          sums[p] += v.x * a + v.y * b + v.z * c + v.w * d;
        }
      }
      for (var p = 0u; p < ${POINTS_OF_THREAD}u; p++) {
        if (factor == 0u) { made_values[p] = sums[p]; } else { made_values[p] *= sums[p]; }
      }
    }
    for (var p = 0u; p < ${POINTS_OF_THREAD}u; p++) { made_values[p] = activation${index}(made_values[p]); }
  }
  workgroupBarrier();
  if (thread < ${(texels * groupPoints) / POINTS_OF_THREAD}u) {
    let first = ${POINTS_OF_THREAD}u * (thread / ${texels}u);
    for (var p = 0u; p < ${POINTS_OF_THREAD}u; p++) {
      values[(first + p) * ${across}u + thread % ${texels}u] = made_values[p];
    }
  }
  workgroupBarrier();`;
  };
  const last = network.layers.at(-1);
  const end = passes.at(-1).offset / 16;
  const inputs = Math.ceil(network.layers[0].fanIn / 4);
  const value = outputOf(network, "sum");
  const kept = network.mosaic
    ? `var value = weight_at(point(number)) * (${value});
      if (about.result.y == 0) { value += points[number]; }
      points[number] = value;`
    : `points[number] = ${value};`;
  return `${WGSL_HEAD}
${WGSL_POINT}
@group(0) @binding(3) var<storage, read> weights: array<vec4f>;
var<workgroup> values: array<vec4f, ${groupPoints * across}>;
${WGSL_SINE}
${wgslEncoding(network)}
${activations.join("\n")}
${network.mosaic ? WGSL_WEIGHT : ""}
@compute @workgroup_size(${threads})
fn main(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) group: vec3u) {
  var made_values: array<vec4f, ${POINTS_OF_THREAD}>;
  let base = group.x * ${groupPoints}u;
  let most = u32(about.batch.x * about.batch.z) - 1u;
  for (var i = thread; i < ${groupPoints * inputs}u; i += ${threads}u) {
    let p = i / ${inputs}u;
    values[p * ${across}u + i % ${inputs}u] = encode(i % ${inputs}u, point(min(base + p, most)));
  }
  workgroupBarrier();
  ${network.layers.slice(0, -1).map(layerCode).join("\n")}
  if (thread < ${groupPoints}u) {
    let number = base + thread;
    var sum = weights[${end}u];
    for (var k = 0u; k < ${Math.ceil(last.fanIn / 4)}u; k++) {
      let v = values[thread * ${across}u + k];
      let at = ${end}u + 1u + 4u * k;
      sum += v.x * weights[at] + v.y * weights[at + 1u] + v.z * weights[at + 2u] + v.w * weights[at + 3u];
    }
    if (number <= most) {
      ${kept}
    }
  }
}`;
}

// The shader that averages points to pixels: it writes means in planes like the textures of WebGL, and
// after them the range of each pixel's samples, which shows whether more samples are needed.
function wgslMeans(channels) {
  const kept = { 1: "xxxx", 3: "xyzz", 4: "xyzw" }[channels];
  return `${WGSL_HEAD}
@group(0) @binding(2) var<storage, read_write> result: array<f32>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3u) {
  if (i32(id.x) >= about.batch.z) { return; }
  var total = vec4f(0.0);
  var lowest = vec4f(1e30);
  var highest = vec4f(-1e30);
  for (var i = 0u; i < u32(about.batch.x); i++) {
    let value = points[id.x * u32(about.batch.x) + i].${kept};
    total += value;
    lowest = min(lowest, value);
    highest = max(highest, value);
  }
  let mean = total / f32(about.batch.x);
  let range = highest - lowest;
  let slot = i32(id.x) + about.batch.w;
  let at = 4 * ((slot % ${PLANES}) * about.result.x + slot / ${PLANES});
  for (var c = 0; c < 4; c++) { result[at + c] = mean[c]; }
  result[${4 * PLANES} * about.result.x + slot] = max(max(range.x, range.y), max(range.z, range.w));
}`;
}
