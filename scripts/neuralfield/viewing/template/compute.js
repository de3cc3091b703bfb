// Evaluates a network in WebGPU compute shaders. Pixels are read back, so that WebGL can show them.

const GROUP_POINTS = [32, 16, 8];
const DISPATCH_POINTS = 1 << 18;

class NetworkInCompute {
  // Returns the network on this machine's GPU, or null if WebGPU is missing, runs in software, or has
  // too low limits. `#webgl` at the end of the page's address disables it, `#webgpu` allows software.
  static async create(network) {
    if (location.hash === "#webgl" || location.hash === "#gpu") return null;
    const adapter = await navigator.gpu?.requestAdapter({ powerPreference: "high-performance" });
    if (!adapter) return null;
    const { vendor, architecture, description } = adapter.info ?? {};
    const isReal = !SOFTWARE.test(`${vendor} ${architecture} ${description}`);
    const shape = NetworkInCompute.shape(network, adapter.limits);
    if (!shape || !(isReal || location.hash === "#webgpu")) return null;
    const names = ["maxComputeWorkgroupStorageSize", "maxComputeInvocationsPerWorkgroup", "maxComputeWorkgroupSizeX"];
    const requiredLimits = Object.fromEntries(names.map((name) => [name, adapter.limits[name]]));
    const made = new NetworkInCompute(await adapter.requestDevice({ requiredLimits }), network, shape);
    await made.compile();
    return made;
  }

  // Returns the numbers of points and threads of a workgroup, or null if none fits the limits.
  static shape(network, limits) {
    const texels = network.layers.slice(0, -1).map((layer) => Math.ceil(layer.fanOut / layer.factors / 4));
    const across = Math.max(...network.layers.map((layer) => Math.ceil(layer.fanIn / 4)));
    const most = Math.min(limits.maxComputeInvocationsPerWorkgroup, limits.maxComputeWorkgroupSizeX);
    for (const groupPoints of GROUP_POINTS) {
      const needed = Math.max(groupPoints, ...texels.map((size) => (size * groupPoints) / POINTS_OF_THREAD));
      const threads = 32 * Math.ceil(needed / 32);
      const fits = 16 * groupPoints * across <= limits.maxComputeWorkgroupStorageSize;
      if (fits && threads <= most) return { groupPoints, threads, across };
    }
    return null;
  }

  constructor(device, network, shape) {
    this.device = device;
    this.network = network;
    this.shape = shape;
    this.weights = new Map();
    this.free = [];
    this.isLost = false;
    device.lost.then(() => { this.isLost = true; });
    device.addEventListener("uncapturederror", () => device.destroy());
    let vectors = 0;
    const add = (layer, texels, block) => {
      this.passes.push({ layer, first: 0, texels, block, offset: 16 * vectors });
      vectors += block;
    };
    this.passes = [];
    if (network.frequencies) add(-1, 0, Math.ceil(network.frequencies / 2));
    network.layers.forEach((layer, index) => {
      const texels = Math.ceil(layer.fanOut / layer.factors / 4);
      add(index, texels, texels * layer.factors * (1 + 4 * Math.ceil(layer.fanIn / 4)));
    });
    this.weightBytes = 16 * vectors;
    const { STORAGE, UNIFORM, COPY_DST } = GPUBufferUsage;
    this.about = this.buffer(128, UNIFORM | COPY_DST);
    this.points = this.buffer(16 * DISPATCH_POINTS, STORAGE);
    this.listed = this.buffer(4 * TILE_PX * TILE_PX, STORAGE | COPY_DST);
    this.levels = network.levels ? this.filled(this.levelNumbers()) : null;
  }

  buffer(size, usage) {
    return this.device.createBuffer({ size, usage });
  }

  filled(numbers) {
    const buffer = this.buffer(numbers.byteLength, GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_DST);
    this.device.queue.writeBuffer(buffer, 0, numbers);
    return buffer;
  }

  levelNumbers() {
    return Uint32Array.from(this.network.levels.flatMap((level) =>
      [level.resolution, level.start, level.rows - 1, level.columns, level.skipped, level.is_hashed, 0, 0]));
  }

  async compile() {
    const codes = [wgslNetwork(this.network, this.passes, this.shape), wgslMeans(this.network.channels)];
    [this.evaluate, this.average] = await Promise.all(codes.map((code) => {
      const module = this.device.createShaderModule({ code });
      return this.device.createComputePipelineAsync({ layout: "auto", compute: { module, entryPoint: "main" } });
    }));
  }

  // Upload the weights of a network for its shader. The last 64 uploads are kept, by `key`.
  upload(key, load) {
    const known = this.weights.get(key);
    if (known) return known;
    if (this.weights.size >= 64) {
      const [oldest, old] = this.weights.entries().next().value;
      old.forEach((buffer) => buffer.destroy());
      this.weights.delete(oldest);
    }
    const arrays = load();
    const made = [this.filled(packWeights(this.network, this.passes, arrays, this.weightBytes))];
    if (this.levels) made.push(this.filled(arrays["encoding.table"]));
    this.weights.set(key, made);
    return made;
  }

  pass(encoder, pipeline, buffers, workgroups) {
    const entries = Object.entries(buffers).map(([binding, buffer]) => ({ binding: Number(binding), resource: { buffer } }));
    const pass = encoder.beginComputePass();
    pass.setPipeline(pipeline);
    pass.setBindGroup(0, this.device.createBindGroup({ layout: pipeline.getBindGroupLayout(0), entries }));
    pass.dispatchWorkgroups(workgroups);
    pass.end();
  }

  // Submit the work for the means of `count` pixels of a region, from the pixel `first` on, or from
  // element `first` of `list` if it is given.
  submit(result, region, first, count, samples, list) {
    const { queue } = this.device;
    if (list) queue.writeBuffer(this.listed, 0, list.subarray(first, first + count));
    region.parts.forEach((part, index) => {
      const bytes = new ArrayBuffer(128);
      const { left, top, width } = region;
      const cells = (TILE_PX * TILE_PX) / PLANES;
      const isFirst = index === 0 ? 1 : 0;
      new Int32Array(bytes).set([left, top, width, first, samples, list ? 1 : 0, count, first, cells, isFirst]);
      const fade = [...part.pixels, ...part.fades, ...part.gradients];
      new Float32Array(bytes, 48).set([...part.place, ...part.sides, ...offsetsMean(samples), ...fade]);
      queue.writeBuffer(this.about, 0, bytes);
      const [weights, table] = this.upload(part.key, part.arrays);
      const encoder = this.device.createCommandEncoder();
      const buffers = { 0: this.about, 1: this.points, 2: this.listed, 3: weights };
      if (table) Object.assign(buffers, { 4: table, 5: this.levels });
      this.pass(encoder, this.evaluate, buffers, Math.ceil((count * samples) / this.shape.groupPoints));
      if (index === region.parts.length - 1) {
        this.pass(encoder, this.average, { 0: this.about, 1: this.points, 2: result }, Math.ceil(count / 64));
      }
      queue.submit([encoder.finish()]);
    });
  }

  // Render the pixels of a region, or only those in `list`, in steps. Each `yield` gives the number of
  // points submitted, or 0 while the results are awaited. Returns the means and the range of the
  // samples of each pixel, or null if the GPU was lost.
  *render(region, samples, list, slice) {
    const count = list ? list.length : region.width * region.height;
    const { STORAGE, COPY_SRC, COPY_DST, MAP_READ } = GPUBufferUsage;
    const bytes = 20 * TILE_PX * TILE_PX;
    const buffers = this.free.pop() ?? {
      result: this.buffer(bytes, STORAGE | COPY_SRC),
      read: this.buffer(bytes, MAP_READ | COPY_DST),
    };
    try {
      for (let first = 0; first < count; ) {
        const points = Math.min(DISPATCH_POINTS, slice());
        const some = Math.min(count - first, Math.max(1, Math.floor(points / samples)));
        this.submit(buffers.result, region, first, some, samples, list);
        first += some;
        yield some * samples * region.parts.length;
      }
      const encoder = this.device.createCommandEncoder();
      encoder.copyBufferToBuffer(buffers.result, 0, buffers.read, 0, bytes);
      this.device.queue.submit([encoder.finish()]);
      let state = "pending";
      buffers.read.mapAsync(GPUMapMode.READ).then(() => { state = "there"; }, () => { state = "lost"; });
      do yield 0;
      while (state === "pending" && !this.isLost);
      if (state !== "there") return null;
      const numbers = new Float32Array(buffers.read.getMappedRange().slice());
      const means = numbers.subarray(0, 4 * TILE_PX * TILE_PX);
      return { count, means, ranges: numbers.subarray(4 * TILE_PX * TILE_PX, 4 * TILE_PX * TILE_PX + count) };
    } finally {
      buffers.read.unmap(); // also if the tile is dropped before it is read back
      this.free.push(buffers);
    }
  }

  // Returns an object whose `isDone` becomes true when all submitted work is done.
  fence() {
    const fence = { isDone: false };
    const end = () => { fence.isDone = true; };
    this.device.queue.onSubmittedWorkDone().then(end, end);
    return fence;
  }
}
