// The weights embedded in the page: the finished network's, and differences between its snapshots.

async function inflated(text) {
  const packed = Uint8Array.from(atob(text.trim()), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

class StoredWeights {
  // `layout` names the arrays of a network. For each network, `bytes` has the finished arrays, and then
  // the differences of each snapshot from the previous one. Both are in planes: the first bytes of all
  // numbers of an array, or of a snapshot, then the second bytes, and so on.
  constructor(layout, bytes) {
    this.layout = layout;
    this.bytes = bytes;
    const sizes = (tensors) => tensors.reduce((sum, tensor) => sum + tensor.size, 0);
    this.finalBytes = layout.tensors.reduce((sum, { size, bytes }) => sum + size * bytes, 0);
    this.moving = layout.tensors.filter((tensor) => tensor.moves);
    this.moves = sizes(this.moving);
    this.networkBytes = this.finalBytes + 2 * this.moves * layout.snapshots;
    this.finals = [];
    this.running = layout.networks.map(() => ({ snapshot: -1, numbers: null }));
  }

  // Returns the arrays of a network by name; the finished network's for an index past all snapshots.
  arrays(index, snapshot) {
    this.finals[index] ??= this.finished(index);
    if (snapshot >= this.layout.snapshots) return this.finals[index];
    return { ...this.finals[index], ...this.learning(index, snapshot) };
  }

  finished(index) {
    const arrays = {};
    let start = index * this.networkBytes;
    this.layout.tensors.forEach(({ name, size, bytes }, tensor) => {
      arrays[name] = this.numbers(start, size, bytes, this.layout.networks[index].steps[tensor]);
      start += size * bytes;
    });
    return arrays;
  }

  // Returns the residual of the finished network, and how many times finer than the image it is, or
  // null if there is none. It is stored after all networks.
  residual() {
    const { residual, networks } = this.layout;
    if (!residual) return null;
    const { size, step, scale } = residual;
    return { values: this.numbers(networks.length * this.networkBytes, size, 2, step), scale };
  }

  // Decode numbers from planes: floats of 4 bytes, or integers of 2 bytes, multiplied by `step`.
  numbers(start, size, bytes, step) {
    const whole = new Uint8Array(size * bytes);
    for (let plane = 0; plane < bytes; ++plane) {
      for (let i = 0; i < size; ++i) whole[i * bytes + plane] = this.bytes[start + plane * size + i];
    }
    if (bytes === 4) return new Float32Array(whole.buffer);
    return Float32Array.from(new Int16Array(whole.buffer), (code) => code * step);
  }

  // A snapshot is the sum of the differences so far, each a number of steps; odd codes are negative.
  learning(index, snapshot) {
    const running = this.running[index];
    if (running.snapshot > snapshot || !running.numbers) {
      running.snapshot = -1;
      running.numbers = new Float64Array(this.moves);
    }
    while (running.snapshot < snapshot) {
      running.snapshot += 1;
      this.add(index, running.snapshot, running.numbers);
    }
    const arrays = {};
    let start = 0;
    for (const { name, size } of this.moving) {
      arrays[name] = Float32Array.from(running.numbers.subarray(start, (start += size)));
    }
    return arrays;
  }

  add(index, snapshot, numbers) {
    const { bytes, moves } = this;
    const first = index * this.networkBytes + this.finalBytes + 2 * moves * snapshot;
    let start = 0;
    this.moving.forEach(({ size }, tensor) => {
      const step = this.layout.networks[index].snapshotSteps[tensor] * this.layout.coarseness[snapshot];
      for (const end = start + size; start < end; ++start) {
        const code = bytes[first + start] | (bytes[first + moves + start] << 8);
        numbers[start] += step * (code & 1 ? -((code + 1) >> 1) : code >> 1);
      }
    });
  }
}
