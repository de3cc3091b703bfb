// Tiles of the image at any scale, rendered as jobs in slices of limited time.

const MOST_TILES = 1200;
const SMALLEST_SLICES = [256, 2048]; // points; the more products a point takes, the fewer
const LARGEST_SLICE = 1 << 22;

// Minimum and maximum milliseconds of a slice. Submitted work delays the next frame, so that slices on
// a GPU are short; in short slices, a software renderer would spend more time on passes than on points.
const SLICE_MS = {
  gpu: { moving: [6, 10], still: [12, 30] },
  software: { moving: [30, 120], still: [120, 400] },
};

// Returns runs of pixel columns, or rows, each covered by the same networks of a mosaic.
function runsOf(spans, start, step, count) {
  const runs = [];
  for (let i = 0; i < count; ++i) {
    const [low, high] = [start + i * step, start + (i + 1) * step];
    let first = spans.findIndex(([, end]) => end > low);
    if (first < 0) first = spans.length - 1;
    let last = spans.length - 1;
    while (last > first && spans[last][0] >= high) last -= 1;
    const run = runs.at(-1);
    if (run && run.first === first && run.last === last) run.count += 1;
    else runs.push({ from: i, count: 1, first, last });
  }
  return runs;
}

// Returns the regions of a grid of pixels, each with its networks and the grid's place in them.
// `x`, `y` are px of the image at the grid's corner, `dx`, `dy` the sides of its pixels in px.
// A single network is that of the only tile of an image.
function regionsOf(network, store, snapshot, { x, y, dx, dy, columns, rows }) {
  const single = { columns: [[0, network.width]], rows: [[0, network.height]], overlap: 1 };
  const mosaic = network.mosaic ?? single;
  const { overlap } = mosaic;
  const gradient = (isEdge) => (isEdge ? 0 : 1 / overlap);
  const regions = [];
  for (const down of runsOf(mosaic.rows, y, dy, rows)) {
    for (const across of runsOf(mosaic.columns, x, dx, columns)) {
      const parts = [];
      for (let row = down.first; row <= down.last; ++row) {
        for (let column = across.first; column <= across.last; ++column) {
          const index = row * mosaic.columns.length + column;
          const [left, right] = mosaic.columns[column];
          const [top, bottom] = mosaic.rows[row];
          const longer = Math.max(right - left, bottom - top);
          const axis = (low, high, start, step) => {
            if (!network.mosaic && high - low === 1) return [0, 0, network.footprint ? 2 / longer : 0];
            return [(2 * start - low - high) / longer, (2 * step) / longer, (2 * step) / longer];
          };
          const [cornerX, stepX, sideX] = axis(left, right, x, dx);
          const [cornerY, stepY, sideY] = axis(top, bottom, y, dy);
          parts.push({
            key: `${index} ${snapshot}`,
            arrays: () => store.arrays(index, snapshot),
            place: [cornerX, cornerY, stepX, stepY],
            sides: [sideX, sideY],
            pixels: [longer / 2, longer / 2, (left + right) / 2, (top + bottom) / 2],
            fades: [left + overlap, right - overlap, top + overlap, bottom - overlap],
            gradients: [
              -gradient(column === 0),
              gradient(column === mosaic.columns.length - 1),
              -gradient(row === 0),
              gradient(row === mosaic.rows.length - 1),
            ],
          });
        }
      }
      regions.push({ left: across.from, top: down.from, width: across.count, height: down.count, parts });
    }
  }
  return regions;
}

class Tiles {
  constructor(gl, network, store, image, preview) {
    this.gl = gl;
    this.network = network;
    this.store = store;
    this.gpu = new NetworkOnGpu(gl, network);
    const residual = store.residual();
    if (residual) this.gpu.setResidual(residual);
    this.show = this.gpu.program(SHOW_VERTEX, SHOW_SHADER);
    this.flags = this.gpu.texture(gl.TEXTURE_2D, gl.R8, TILE_PX, TILE_PX);
    this.image = this.imageTexture(image);
    this.imageSize = [image.width, image.height];
    this.preview = this.previewTile(preview);
    this.cache = new Map();
    this.free = [];
    this.jobs = [];
    this.running = null;
    this.fence = null;
    const [least, most] = SMALLEST_SLICES;
    this.smallest = Math.min(most, Math.max(least, Math.round(6e7 / this.gpu.cost)));
    this.slice = Math.max(this.smallest, Math.min(1 << 16, Math.round(1e8 / this.gpu.cost)));
    this.pointsPerMs = this.slice / 16;
    this.sliceMs = SLICE_MS[isSoftware(gl) ? "software" : "gpu"];
    this.clock = 0;
    this.finished = 0;
    this.isMoving = false;
  }

  imageTexture(image) {
    const { gl } = this;
    const texture = this.gpu.texture(gl.TEXTURE_2D, gl.RGBA8, image.width, image.height);
    gl.pixelStorei(gl.UNPACK_PREMULTIPLY_ALPHA_WEBGL, false);
    gl.pixelStorei(gl.UNPACK_COLORSPACE_CONVERSION_WEBGL, gl.NONE);
    gl.texSubImage2D(gl.TEXTURE_2D, 0, 0, 0, gl.RGBA, gl.UNSIGNED_BYTE, image);
    return texture;
  }

  // Returns a render of the finished network as a tile of the whole image that is never dropped.
  previewTile(image) {
    const { width, height } = this.network;
    return {
      texture: this.imageTexture(image),
      kind: "network",
      snapshot: this.store.layout.snapshots,
      scale: Math.max(image.width, image.height) / Math.max(width, height),
      ...{ column: 0, row: 0, across: width, down: height },
      last: [1 - 0.5 / image.width, 1 - 0.5 / image.height],
    };
  }

  newTile() {
    if (this.free.length) return this.free.pop();
    if (this.cache.size >= MOST_TILES) {
      let oldest = null;
      for (const entry of this.cache) if (!oldest || entry[1].used < oldest[1].used) oldest = entry;
      this.cache.delete(oldest[0]);
      return oldest[1];
    }
    const texture = this.gpu.texture(this.gl.TEXTURE_2D, this.gl.RGBA8, TILE_PX, TILE_PX);
    return { texture, framebuffer: this.gpu.framebuffer([texture, this.flags]), used: 0 };
  }

  // Render a tile in steps. Each `yield` gives the number of points that were rendered, or 0 while the
  // GPU is awaited.
  *fill(tile, kind, snapshot, grid, samples) {
    if (kind !== "network") {
      yield this.filter(tile, kind, grid);
      return;
    }
    const isCorrected = this.gpu.residual && snapshot >= this.store.layout.snapshots;
    for (const region of regionsOf(this.network, this.store, snapshot, grid)) {
      this.gpu.setCorrection(isCorrected ? grid : null, samples);
      const count = region.width * region.height;
      yield* this.batches(tile, region, count, Math.min(samples, FIRST_SAMPLES), false);
      if (samples <= FIRST_SAMPLES) continue;
      const flags = yield* this.read(tile, 1, region);
      const uneven = [];
      for (let i = 0; i < count; ++i) if (flags[4 * i]) uneven.push(i);
      this.gpu.setList(uneven);
      yield* this.batches(tile, region, uneven.length, samples, true);
    }
  }

  *batches(tile, region, count, samples, isListed) {
    for (let first = 0; first < count; ) {
      const points = Math.min(this.gpu.mostPoints, this.slice);
      const some = Math.min(count - first, Math.max(1, Math.floor(points / samples)));
      this.gpu.run(tile, region, first, some, samples, isListed);
      first += some;
      yield some * samples * region.parts.length;
    }
  }

  // Read a region of an attachment without blocking the page.
  *read(tile, attachment, { left, top, width, height }) {
    const { gl } = this;
    const buffer = gl.createBuffer();
    gl.bindFramebuffer(gl.FRAMEBUFFER, tile.framebuffer);
    gl.readBuffer(gl.COLOR_ATTACHMENT0 + attachment);
    gl.bindBuffer(gl.PIXEL_PACK_BUFFER, buffer);
    gl.bufferData(gl.PIXEL_PACK_BUFFER, 4 * width * height, gl.STREAM_READ);
    gl.readPixels(left, top, width, height, gl.RGBA, gl.UNSIGNED_BYTE, 0);
    gl.bindBuffer(gl.PIXEL_PACK_BUFFER, null);
    const fence = gl.fenceSync(gl.SYNC_GPU_COMMANDS_COMPLETE, 0);
    gl.flush();
    try {
      do yield 0;
      while (gl.clientWaitSync(fence, 0, 0) === gl.TIMEOUT_EXPIRED);
      const bytes = new Uint8Array(4 * width * height);
      gl.bindBuffer(gl.PIXEL_PACK_BUFFER, buffer);
      gl.getBufferSubData(gl.PIXEL_PACK_BUFFER, 0, bytes);
      gl.bindBuffer(gl.PIXEL_PACK_BUFFER, null);
      return bytes;
    } finally {
      gl.deleteBuffer(buffer);
      gl.deleteSync(fence);
    }
  }

  filter(tile, kind, { x, y, dx, dy }) {
    const { gl, gpu, network } = this;
    const scale = [this.imageSize[0] / network.width, this.imageSize[1] / network.height];
    gl.bindVertexArray(gpu.vertices);
    gl.disable(gl.SCISSOR_TEST);
    gl.bindFramebuffer(gl.FRAMEBUFFER, tile.framebuffer);
    gl.viewport(0, 0, TILE_PX, TILE_PX);
    gl.useProgram(gpu.filter.program);
    gpu.bind(4, gl.TEXTURE_2D, this.image);
    gl.uniform4f(gpu.filter.at("place"), x * scale[0], y * scale[1], dx * scale[0], dy * scale[1]);
    gl.uniform1i(gpu.filter.at("nearest"), kind === "nearest" ? 1 : 0);
    gl.drawArrays(gl.TRIANGLES, 0, 3);
    return Math.max(1, Math.round((TILE_PX * TILE_PX * 400) / gpu.cost));
  }

  // Returns whether the GPU still works on the last slice. Its time determines the size of the next.
  isWaiting() {
    const { gl, fence } = this;
    if (!fence) return false;
    if (gl.clientWaitSync(fence.sync, 0, 0) === gl.TIMEOUT_EXPIRED) return true;
    gl.deleteSync(fence.sync);
    this.fence = null;
    if (fence.points > this.slice / 2) {
      const took = Math.max(1, performance.now() - fence.since);
      this.pointsPerMs = 0.7 * this.pointsPerMs + (0.3 * fence.points) / took;
      const [fast, slow] = this.sliceMs[this.isMoving ? "moving" : "still"];
      const factor = took < fast ? 1.5 : took > slow ? 0.6 : 1;
      this.slice = Math.min(LARGEST_SLICE, Math.max(this.smallest, this.slice * factor));
    }
    return false;
  }

  // Run jobs, one after another, until the slice is full or the GPU is awaited.
  work() {
    const { gl } = this;
    if (this.isWaiting()) return;
    let points = 0;
    while (points < this.slice) {
      const job = this.running ?? this.jobs.shift();
      if (!job) break;
      this.running = job;
      const { value, done } = job.steps.next();
      if (done) {
        this.running = null;
        job.end(value);
      } else if (value === 0) break;
      else points += value;
    }
    if (points) {
      const sync = gl.fenceSync(gl.SYNC_GPU_COMMANDS_COMPLETE, 0);
      gl.flush();
      this.fence = { sync, points, since: performance.now() };
    }
  }

  get isBusy() {
    return Boolean(this.running || this.jobs.length || this.fence);
  }

  static key(kind, snapshot, scale, column, row) {
    return `${kind} ${snapshot} ${scale} ${column} ${row}`;
  }

  // Returns the tiles that cover a box in px of the image, at a scale, from the centre outwards.
  cover(scale, [left, top, right, bottom]) {
    const side = TILE_PX / scale;
    const { width, height } = this.network;
    const found = [];
    const [from, to] = [Math.max(0, left), Math.min(width, right)];
    const [above, below] = [Math.max(0, top), Math.min(height, bottom)];
    for (let row = Math.floor(above / side); row * side < below; ++row) {
      for (let column = Math.floor(from / side); column * side < to; ++column) {
        const far = Math.hypot((column + 0.5) * side - (left + right) / 2, (row + 0.5) * side - (top + bottom) / 2);
        found.push({ column, row, far });
      }
    }
    return found.sort((a, b) => a.far - b.far);
  }

  // Returns the job of a tile: `steps` renders it, and `end` puts it into the cache.
  job(kind, snapshot, scale, { column, row }, isCoarse) {
    const side = TILE_PX / scale;
    const [x, y] = [column * side, row * side];
    const { width, height } = this.network;
    const fitting = (px) => Math.max(1, Math.min(TILE_PX, Math.ceil(px * scale - 1e-6)));
    const [columns, rows] = [fitting(width - x), fitting(height - y)];
    const grid = { x, y, dx: 1 / scale, dy: 1 / scale, columns, rows };
    const exact = samplesOf(this.network, 1 / scale);
    const samples = isCoarse ? Math.min(scale < 1 ? 4 : 1, exact) : exact;
    const key = Tiles.key(kind, snapshot, scale, column, row);
    const tiles = this;
    const job = { key, tile: null };
    function* steps() {
      job.tile = tiles.newTile();
      const last = [columns, rows].map((texels) => (texels - 0.5) / TILE_PX);
      const place = { column, row, across: side, down: side, last };
      Object.assign(job.tile, { kind, snapshot, scale, ...place, used: tiles.clock });
      yield* tiles.fill(job.tile, kind, snapshot, grid, samples);
    }
    job.steps = steps();
    job.end = () => {
      this.cache.set(key, job.tile);
      this.finished += 1;
    };
    return job;
  }

  // Replace the jobs of the view by those that it needs now; the one in progress continues.
  want(wanted) {
    const { running } = this;
    if (running && !running.isLasting && wanted.every((job) => job.key !== running.key)) {
      running.steps.return();
      this.free.push(running.tile);
      this.running = null;
    }
    const rest = wanted.filter((job) => job.key !== this.running?.key);
    this.jobs = [...rest, ...this.jobs.filter((job) => job.isLasting)];
  }

  // Render a part of the image at any size; the promise yields RGBA pixels, row by row.
  // `box` is left, top, right and bottom in fractions of the image's sides.
  pixels({ kind = "network", snapshot, width, height, box = [0, 0, 1, 1], samples }) {
    const dx = ((box[2] - box[0]) * this.network.width) / width;
    const dy = ((box[3] - box[1]) * this.network.height) / height;
    const taken = samples ?? samplesOf(this.network, Math.max(dx, dy));
    const tiles = this;
    function* steps() {
      const whole = new Uint8ClampedArray(4 * width * height);
      const tile = tiles.newTile();
      for (let top = 0; top < height; top += TILE_PX) {
        for (let left = 0; left < width; left += TILE_PX) {
          const columns = Math.min(TILE_PX, width - left);
          const rows = Math.min(TILE_PX, height - top);
          const x = box[0] * tiles.network.width + left * dx;
          const y = box[1] * tiles.network.height + top * dy;
          yield* tiles.fill(tile, kind, snapshot, { x, y, dx, dy, columns, rows }, taken);
          const part = yield* tiles.read(tile, 0, { left: 0, top: 0, width: columns, height: rows });
          for (let row = 0; row < rows; ++row) {
            const line = part.subarray(4 * row * columns, 4 * (row + 1) * columns);
            whole.set(line, 4 * ((top + row) * width + left));
          }
        }
      }
      tiles.free.push(tile);
      return whole;
    }
    return new Promise((end) => this.jobs.push({ isLasting: true, steps: steps(), end }));
  }
}
