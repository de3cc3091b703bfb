// Times a network of sines as a WebGPU compute shader: 1,000 points a second, or null without WebGPU.
// A workgroup takes 32 points; a thread makes four outputs of 8 of them, so that a weight that it
// reads serves for 8 points and a value for 4 outputs. Values of a layer stay in workgroup memory.
async (width, hidden, ms) => {
  const adapter = await navigator.gpu?.requestAdapter({ powerPreference: "high-performance" });
  if (!adapter) return null;
  const bytes = 32 * width * 4;
  if (adapter.limits.maxComputeWorkgroupStorageSize < bytes) return null;
  const device = await adapter.requestDevice({
    requiredLimits: { maxComputeWorkgroupStorageSize: Math.max(16384, bytes) },
  });
  const groups = width / 4;
  const code = `
@group(0) @binding(0) var<storage, read> weights: array<vec4f>;
@group(0) @binding(1) var<storage, read_write> image: array<u32>;
var<workgroup> values: array<vec4f, ${32 * groups}>;
fn sine(x: vec4f) -> vec4f {
  let turns = round(x * 0.3183098861837907);
  var r = (x - turns * 3.140625) - turns * 9.676535897932e-4;
  let s = r * r;
  r *= 1.0 + s * (-0.16666667 + s * (8.3333333e-3 + s * (-1.9841270e-4
    + s * (2.7557319e-6 - s * 2.5052108e-8))));
  return r * (1.0 - 2.0 * (turns - 2.0 * floor(turns * 0.5)));
}
@compute @workgroup_size(${width})
fn main(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) group: vec3u) {
  let output = thread % ${groups}u;
  let first = 8u * (thread / ${groups}u);
  var sums: array<vec4f, 8>;
  for (var p = 0u; p < 8u; p++) {
    let number = group.x * 32u + first + p;
    let at = vec2f(f32(number & 1023u), f32(number >> 10u)) / 512.0 - 1.0;
    sums[p] = sine(weights[output] + at.x * weights[output + ${groups}u] + at.y * weights[output + ${2 * groups}u]);
  }
  var base = ${3 * groups}u;
  for (var layer = 0u; layer < ${hidden}u; layer++) {
    workgroupBarrier();
    for (var p = 0u; p < 8u; p++) { values[(first + p) * ${groups}u + output] = sums[p]; }
    workgroupBarrier();
    let bias = weights[base + output];
    for (var p = 0u; p < 8u; p++) { sums[p] = bias; }
    base += ${groups}u;
    for (var k = 0u; k < ${groups}u; k++) {
      let at = base + 4u * k * ${groups}u + output;
      let a = weights[at]; let b = weights[at + ${groups}u];
      let c = weights[at + ${2 * groups}u]; let d = weights[at + ${3 * groups}u];
      for (var p = 0u; p < 8u; p++) {
        let v = values[(first + p) * ${groups}u + k];
        sums[p] += v.x * a + v.y * b + v.z * c + v.w * d;
      }
    }
    for (var p = 0u; p < 8u; p++) { sums[p] = sine(sums[p]); }
    base += ${4 * groups * groups}u;
  }
  workgroupBarrier();
  for (var p = 0u; p < 8u; p++) { values[(first + p) * ${groups}u + output] = sums[p]; }
  workgroupBarrier();
  if (thread < 32u) {
    var colour = vec3f(0.5);
    for (var k = 0u; k < ${groups}u; k++) {
      let v = values[thread * ${groups}u + k];
      for (var c = 0u; c < 3u; c++) { colour[c] += dot(v, weights[base + c * ${groups}u + k]); }
    }
    image[group.x * 32u + thread] = pack4x8unorm(vec4f(colour, 1.0));
  }
}`;
  const count = (3 + hidden * (1 + width) + 3) * groups;
  const numbers = Float32Array.from({ length: 4 * count }, (_, i) => Math.sin(12.9898 * i) * Math.sqrt(6 / width));
  const points = 1 << 20;
  const buffer = (size, usage) => device.createBuffer({ size, usage });
  const weights = buffer(numbers.byteLength, GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_DST);
  const image = buffer(4 * points, GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC);
  device.queue.writeBuffer(weights, 0, numbers);
  const module = device.createShaderModule({ code });
  const faults = (await module.getCompilationInfo()).messages.filter((m) => m.type === "error");
  if (faults.length) throw new Error(faults.map((m) => `${m.lineNum}: ${m.message}`).join("; "));
  const pipeline = device.createComputePipeline({ layout: "auto", compute: { module, entryPoint: "main" } });
  const bound = device.createBindGroup({
    layout: pipeline.getBindGroupLayout(0),
    entries: [weights, image].map((kept, binding) => ({ binding, resource: { buffer: kept } })),
  });
  const run = async (workgroups, times) => {
    const start = performance.now();
    for (let i = 0; i < times; ++i) {
      const encoder = device.createCommandEncoder();
      const pass = encoder.beginComputePass();
      pass.setPipeline(pipeline);
      pass.setBindGroup(0, bound);
      pass.dispatchWorkgroups(workgroups);
      pass.end();
      device.queue.submit([encoder.finish()]);
    }
    await device.queue.onSubmittedWorkDone();
    return performance.now() - start;
  };
  let workgroups = 16;
  while (workgroups < points / 32 && (await run(workgroups, 1)) < ms / 16) workgroups *= 2;
  let times = 1;
  while ((await run(workgroups, times)) < ms / 4) times *= 2;
  const best = Math.min(await run(workgroups, times), await run(workgroups, times), await run(workgroups, times));
  const { vendor, architecture } = adapter.info;
  device.destroy();
  return [(32 * workgroups * times) / best, `${vendor} ${architecture}`];
}
