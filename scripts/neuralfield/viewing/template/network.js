// Evaluates a network in WebGL: its passes, and the batches of points that they compute.

const BATCH_BYTES = 48 << 20;
const MOST_POINTS = 1 << 16;
const TILE_PX = 128;

class Refusal extends Error {}

const SOFTWARE = /swiftshader|llvmpipe|softpipe|software|basic render/i;

// `#gpu` at the end of the page's address makes any renderer count as a GPU, for tests.
function isSoftware(gl) {
  const about = gl.getExtension("WEBGL_debug_renderer_info");
  const name = String(gl.getParameter(about ? about.UNMASKED_RENDERER_WEBGL : gl.RENDERER));
  return SOFTWARE.test(name) && location.hash !== "#gpu";
}

class NetworkOnGpu {
  // `network` is the description that is embedded in the page.
  constructor(gl, network) {
    if (!gl.getExtension("EXT_color_buffer_float")) {
      throw new Refusal("this browser’s GPU cannot render to 32-bit floats");
    }
    this.gl = gl;
    this.network = network;
    const most = [gl.MAX_DRAW_BUFFERS, gl.MAX_COLOR_ATTACHMENTS].map((name) => gl.getParameter(name));
    const attachments = Math.min(8, ...most);
    PLANES = Math.min(attachments, isSoftware(gl) ? 8 : 2);
    this.texels = Math.floor(attachments / PLANES);
    this.blockBytes = gl.getParameter(gl.MAX_UNIFORM_BLOCK_SIZE);
    this.alignment = gl.getParameter(gl.UNIFORM_BUFFER_OFFSET_ALIGNMENT);
    this.programs = new Map();
    this.weights = new Map();
    this.points = 0;
    this.vertices = gl.createVertexArray();
    gl.bindVertexArray(this.vertices);
    this.residual = null;
    this.residualScale = 1;
    this.makePasses();
    this.makeTextures();
    this.reduce = this.program(REDUCE_VERTEX, reduceShader(network.channels));
    this.filter = this.program(FULL_VERTEX, FILTER_SHADER);
    this.list = this.texture(gl.TEXTURE_2D, gl.R32UI, 256, TILE_PX * TILE_PX / 256);
    this.taps = this.texture(gl.TEXTURE_2D, gl.RG32F, TILE_PX, 1 + MOST_TAPS);
    this.tapCount = 0;
    const sum = (of) => this.passes.reduce((total, pass) => total + of(pass), 0);
    this.cost = sum((pass) => pass.cost);
    this.texelReads = sum((pass) => pass.texelReads);
  }

  program(vertex, fragment) {
    const { gl } = this;
    const known = this.programs.get(vertex + fragment);
    if (known) return known;
    const program = gl.createProgram();
    for (const [kind, source] of [[gl.VERTEX_SHADER, vertex], [gl.FRAGMENT_SHADER, fragment]]) {
      const shader = gl.createShader(kind);
      gl.shaderSource(shader, source);
      gl.compileShader(shader);
      gl.attachShader(program, shader);
      gl.deleteShader(shader);
    }
    gl.linkProgram(program);
    if (!gl.getProgramParameter(program, gl.LINK_STATUS) && !gl.isContextLost()) {
      const shaders = gl.getAttachedShaders(program);
      const reasons = [gl.getProgramInfoLog(program), ...shaders.map((s) => gl.getShaderInfoLog(s))];
      throw new Refusal(`this GPU’s driver rejects the network: ${reasons.join(" ").trim()}`);
    }
    const uniforms = new Map();
    const at = (name) => {
      if (!uniforms.has(name)) uniforms.set(name, gl.getUniformLocation(program, name));
      return uniforms.get(name);
    };
    gl.useProgram(program);
    const textures = { values: 0, listed: 1, table: 2, sum: 3, tile: 0, image: 4, residual: 5, taps: 6 };
    for (const [name, unit] of Object.entries(textures)) {
      if (at(name)) gl.uniform1i(at(name), unit);
    }
    const made = { program, at };
    this.programs.set(vertex + fragment, made);
    return made;
  }

  texture(target, format, width, height, layers = 0) {
    const { gl } = this;
    const texture = gl.createTexture();
    gl.activeTexture(gl.TEXTURE7);
    gl.bindTexture(target, texture);
    if (layers) gl.texStorage3D(target, 1, format, width, height, layers);
    else gl.texStorage2D(target, 1, format, width, height);
    gl.texParameteri(target, gl.TEXTURE_MIN_FILTER, gl.NEAREST);
    gl.texParameteri(target, gl.TEXTURE_MAG_FILTER, gl.NEAREST);
    gl.texParameteri(target, gl.TEXTURE_WRAP_S, gl.CLAMP_TO_EDGE);
    gl.texParameteri(target, gl.TEXTURE_WRAP_T, gl.CLAMP_TO_EDGE);
    return texture;
  }

  // Make the passes, in order. Each has a shader, the texels that it writes, the size and offset of its
  // weights, and the products (`cost`) and texel reads of a point.
  makePasses() {
    const { network } = this;
    this.passes = [];
    const most = this.texels;
    const isDirect = network.encoding === "identity" || network.encoding === "corners";
    if (!isDirect) {
      const isGrid = network.encoding === "hashgrid";
      const size = Math.ceil(network.layers[0].fanIn / 4);
      for (let first = 0; first < size; first += most) {
        const texels = Math.min(most, size - first);
        const shader = isGrid ? hashShader(network, first, texels) : fourierShader(network, texels);
        const block = isGrid ? null : Math.ceil(network.frequencies / 2);
        if (block && 16 * block > this.blockBytes) throw new Refusal("it has too many frequencies");
        const texelReads = isGrid ? Math.ceil((16 * texels) / network.features) : 0;
        this.add(shader, { layer: -1, first, texels, block, cost: 16 * texels, texelReads });
      }
    }
    network.layers.forEach((layer, index) => {
      const isLast = index === network.layers.length - 1;
      const direct = isDirect && index === 0 ? directInputs(network) : "";
      const inputs = layer.fanIn;
      const columns = direct ? inputs : 4 * Math.ceil(inputs / 4);
      const fitting = Math.floor(this.blockBytes / 16 / (1 + columns));
      const group = Math.min(most, Math.floor(fitting / layer.factors));
      if (group < 1) throw new Refusal(`its layers are too wide for this GPU (${inputs} values)`);
      const size = Math.ceil(layer.fanOut / layer.factors / 4);
      for (let first = 0; first < size; first += group) {
        const texels = Math.min(group, size - first);
        const last = isLast ? lastOf(network) : null;
        const shader = layerShader(layer, { inputs, texels, direct, last });
        const sums = texels * layer.factors;
        const block = sums * (1 + columns);
        const texelReads = direct ? 0 : columns / 4;
        this.add(shader, { layer: index, first, texels, block, cost: 4 * block, texelReads, isLast });
      }
    });
    let bytes = 0;
    for (const pass of this.passes) {
      pass.offset = bytes;
      bytes += Math.ceil((16 * (pass.block ?? 0)) / this.alignment) * this.alignment;
    }
    this.weightBytes = Math.max(bytes, 16);
  }

  add(shader, pass) {
    const { gl } = this;
    pass.program = this.program(FULL_VERTEX, shader);
    const block = gl.getUniformBlockIndex(pass.program.program, "Weights");
    if (block !== gl.INVALID_INDEX) gl.uniformBlockBinding(pass.program.program, block, 0);
    this.passes.push(pass);
  }

  // Make two array textures that layers read from and write to in turn, and two for the values.
  makeTextures() {
    const { gl, network } = this;
    const isEncoded = this.passes[0].layer === -1;
    const sizes = network.layers.slice(0, -1).map((l) => l.fanOut / l.factors);
    if (isEncoded) sizes.push(network.layers[0].fanIn);
    const layers = PLANES * Math.ceil(Math.max(4, ...sizes) / 4);
    if (layers > gl.getParameter(gl.MAX_ARRAY_TEXTURE_LAYERS)) {
      throw new Refusal(`its layers are too wide for this GPU (${layers} values)`);
    }
    const rows = BATCH_BYTES / (2 * 16 * layers * CELLS_ACROSS);
    const most = MOST_POINTS / PLANES / CELLS_ACROSS;
    this.rows = Math.max(4, Math.min(most, Math.floor(rows)));
    this.mostPoints = this.rows * CELLS_ACROSS * PLANES;
    const size = [CELLS_ACROSS, this.rows];
    this.layers = [0, 1].map(() => this.texture(gl.TEXTURE_2D_ARRAY, gl.RGBA32F, ...size, layers));
    this.values = [0, 1].map(() => this.texture(gl.TEXTURE_2D_ARRAY, gl.RGBA32F, ...size, PLANES));
    // the texture that a pass writes to alternates from layer to layer
    const framebuffers = new Map();
    for (const pass of this.passes) {
      const side = (pass.layer + (isEncoded ? 1 : 0)) % 2;
      pass.reads = 1 - side;
      if (pass.isLast) continue;
      const key = `${side} ${pass.first} ${pass.texels}`;
      if (!framebuffers.has(key)) {
        const places = range(pass.texels * PLANES).map((i) => pass.first * PLANES + i);
        framebuffers.set(key, this.framebuffer(this.layers[side], places));
      }
      pass.framebuffer = framebuffers.get(key);
    }
    this.ends = this.values.map((texture) => this.framebuffer(texture, range(PLANES)));
  }

  // Returns a framebuffer of layers of an array texture, or of a list of textures.
  framebuffer(texture, layers = null) {
    const { gl } = this;
    const framebuffer = gl.createFramebuffer();
    gl.bindFramebuffer(gl.FRAMEBUFFER, framebuffer);
    const places = (layers ?? texture).map((part, i) => {
      const place = gl.COLOR_ATTACHMENT0 + i;
      if (layers) gl.framebufferTextureLayer(gl.FRAMEBUFFER, place, texture, 0, part);
      else gl.framebufferTexture2D(gl.FRAMEBUFFER, place, gl.TEXTURE_2D, part, 0);
      return place;
    });
    gl.drawBuffers(places);
    return framebuffer;
  }

  // Upload the weights of a network for its passes. The last 64 used are kept, by `key`.
  upload(key, load) {
    const { gl } = this;
    const known = this.weights.get(key);
    if (known) {
      this.weights.delete(key);
      this.weights.set(key, known);
      return known;
    }
    if (this.weights.size >= 64) {
      const [oldest, old] = this.weights.entries().next().value;
      gl.deleteBuffer(old.buffer);
      if (old.table) gl.deleteTexture(old.table);
      this.weights.delete(oldest);
    }
    const arrays = load();
    const packed = packWeights(this.network, this.passes, arrays, this.weightBytes);
    const buffer = gl.createBuffer();
    gl.bindBuffer(gl.UNIFORM_BUFFER, buffer);
    gl.bufferData(gl.UNIFORM_BUFFER, packed, gl.STATIC_DRAW);
    const made = { buffer, table: null };
    if (this.network.encoding === "hashgrid") made.table = this.tableTexture(arrays);
    this.weights.set(key, made);
    return made;
  }

  tableTexture(arrays) {
    const { gl, network } = this;
    const table = arrays["encoding.table"];
    const stride = 4 * Math.ceil(network.features / 4);
    const count = table.length / network.features;
    const height = Math.ceil((count * stride) / 4 / TABLE_ACROSS);
    if (height > gl.getParameter(gl.MAX_TEXTURE_SIZE)) throw new Refusal("its table is too large");
    const texels = new Float32Array(height * TABLE_ACROSS * 4);
    for (let row = 0; row < count; ++row) {
      for (let i = 0; i < network.features; ++i) {
        texels[row * stride + i] = table[row * network.features + i];
      }
    }
    const texture = this.texture(gl.TEXTURE_2D, gl.RGBA32F, TABLE_ACROSS, height);
    gl.texSubImage2D(gl.TEXTURE_2D, 0, 0, 0, TABLE_ACROSS, height, gl.RGBA, gl.FLOAT, texels);
    return texture;
  }

  bind(unit, target, texture) {
    this.gl.activeTexture(this.gl.TEXTURE0 + unit);
    this.gl.bindTexture(target, texture);
  }

  setPixels({ at }, region, first, samples, isListed) {
    const { gl } = this;
    gl.uniform4i(at("region"), region.left, region.top, region.width, first);
    gl.uniform2i(at("batch"), samples, isListed ? 1 : 0);
  }

  // Render `count` pixels of a region into a tile, from the pixel `first` on.
  // The parts of a region are the networks that cover it, each with the position of the tile's corner.
  run(tile, region, first, count, samples, isListed) {
    const { gl } = this;
    const cells = Math.ceil((count * samples) / PLANES);
    const mean = offsetsMean(samples);
    gl.bindVertexArray(this.vertices);
    gl.disable(gl.SCISSOR_TEST);
    gl.viewport(0, 0, Math.min(cells, CELLS_ACROSS), Math.ceil(cells / CELLS_ACROSS));
    this.bind(1, gl.TEXTURE_2D, this.list);
    let side = 0;
    region.parts.forEach((part, index) => {
      const weights = this.upload(part.key, part.arrays);
      this.bind(2, gl.TEXTURE_2D, weights.table);
      for (const pass of this.passes) {
        const { program, at } = pass.program;
        gl.useProgram(program);
        this.bind(0, gl.TEXTURE_2D_ARRAY, this.layers[pass.reads]);
        if (pass.block) {
          gl.bindBufferRange(gl.UNIFORM_BUFFER, 0, weights.buffer, pass.offset, 16 * pass.block);
        }
        if (at("firstTexel")) gl.uniform1i(at("firstTexel"), pass.first);
        if (at("place")) {
          this.setPixels(pass.program, region, first, samples, isListed);
          gl.uniform4f(at("place"), ...part.place);
          gl.uniform4f(at("spread"), ...part.sides, ...mean);
        }
        if (pass.isLast) {
          this.bind(3, gl.TEXTURE_2D_ARRAY, this.values[1 - side]);
          gl.uniform1i(at("first"), index === 0 ? 1 : 0);
          for (const name of ["pixels", "fades", "gradients"]) gl.uniform4f(at(name), ...part[name]);
        }
        gl.bindFramebuffer(gl.FRAMEBUFFER, pass.framebuffer ?? this.ends[side]);
        gl.drawArrays(gl.TRIANGLES, 0, 3);
      }
      side = 1 - side;
    });
    this.finish(tile, region, first, count, samples, isListed, this.values[1 - side]);
    this.points += count * samples * region.parts.length;
  }

  // Average the samples of each pixel into a tile, and add the residual.
  finish(tile, region, first, count, samples, isListed, values) {
    const { gl } = this;
    gl.bindFramebuffer(gl.FRAMEBUFFER, tile.framebuffer);
    gl.viewport(0, 0, TILE_PX, TILE_PX);
    gl.useProgram(this.reduce.program);
    this.setPixels(this.reduce, region, first, samples, isListed);
    gl.uniform2f(this.reduce.at("size"), TILE_PX, TILE_PX);
    this.bind(0, gl.TEXTURE_2D_ARRAY, values);
    this.bind(1, gl.TEXTURE_2D, this.list);
    this.bind(5, gl.TEXTURE_2D, this.residual);
    this.bind(6, gl.TEXTURE_2D, this.taps);
    gl.uniform1i(this.reduce.at("tapCount"), this.tapCount);
    gl.drawArrays(gl.POINTS, 0, count);
  }

  // Upload the residual of the finished network, shape (scale height, scale width, channels).
  setResidual({ values, scale }) {
    const { gl } = this;
    const { channels } = this.network;
    const [width, height] = [scale * this.network.width, scale * this.network.height];
    this.residualScale = scale;
    const texels = new Float32Array(4 * width * height);
    for (let i = 0; i < width * height; ++i) {
      for (let c = 0; c < Math.max(3, channels); ++c) texels[4 * i + c] = values[i * channels + (c % channels)];
    }
    this.residual = this.texture(gl.TEXTURE_2D, gl.RGBA32F, width, height);
    gl.texSubImage2D(gl.TEXTURE_2D, 0, 0, 0, width, height, gl.RGBA, gl.FLOAT, texels);
  }

  // Add the residual to the pixels of `grid` from now on, or no residual if `grid` is null.
  setCorrection(grid, samples) {
    this.tapCount = 0;
    if (!grid) return;
    const { gl, network, residualScale: scale } = this;
    const points = Math.min(samples, MOST_TAP_POINTS);
    const axes = [
      lanczosTaps(scale * network.width, scale * grid.x, scale * grid.dx, grid.columns, points),
      lanczosTaps(scale * network.height, scale * grid.y, scale * grid.dy, grid.rows, points),
    ];
    this.tapCount = Math.max(...axes.map((axis) => axis.taps));
    const rows = 1 + this.tapCount;
    const texels = new Float32Array(2 * TILE_PX * rows);
    axes.forEach(({ firsts, weights, taps }, axis) => {
      firsts.forEach((first, i) => {
        texels[2 * i + axis] = first;
        for (let tap = 0; tap < taps; ++tap) {
          texels[2 * ((1 + tap) * TILE_PX + i) + axis] = weights[i * MOST_TAPS + tap];
        }
      });
    });
    this.bind(6, gl.TEXTURE_2D, this.taps);
    gl.texSubImage2D(gl.TEXTURE_2D, 0, 0, 0, TILE_PX, rows, gl.RG, gl.FLOAT, texels);
  }

  setList(numbers) {
    const { gl } = this;
    const rows = Math.ceil(numbers.length / 256);
    const texels = new Uint32Array(rows * 256);
    texels.set(numbers);
    this.bind(1, gl.TEXTURE_2D, this.list);
    gl.texSubImage2D(gl.TEXTURE_2D, 0, 0, 0, 256, rows, gl.RED_INTEGER, gl.UNSIGNED_INT, texels);
  }
}
