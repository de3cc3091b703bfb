// Draws tiles on the screen, the best on top.

const MOST_FINER = 4; // times: tiles with more texels per pixel flicker while the view moves

function draw() {
  const { gl } = tiles;
  tiles.clock += 1;
  if (state.shown !== state.snapshot && isReady()) state.shown = state.snapshot;
  const [left, top] = origin();
  const right = left + Math.round(network.width * state.zoom);
  const bottom = top + Math.round(network.height * state.zoom);
  gl.bindFramebuffer(gl.FRAMEBUFFER, null);
  gl.viewport(0, 0, canvas.width, canvas.height);
  gl.disable(gl.SCISSOR_TEST);
  gl.clearColor(...colours().paper, 1);
  gl.clear(gl.COLOR_BUFFER_BIT);
  gl.enable(gl.SCISSOR_TEST);
  gl.useProgram(tiles.show.program);
  gl.bindVertexArray(tiles.gpu.vertices);
  gl.uniform3fv(tiles.show.at("checker"), colours().checker);
  for (const layer of layers()) {
    const [from, to] = [Math.max(left, layer.from), Math.min(right, layer.to)];
    const [above, below] = [Math.max(top, 0), Math.min(bottom, canvas.height)];
    if (from >= to || above >= below) continue;
    gl.scissor(from, canvas.height - below, to - from, below - above);
    for (const tile of drawn(layer)) {
      const [x, y] = [left + tile.column * tile.across * state.zoom, top + tile.row * tile.down * state.zoom];
      gl.uniform4f(
        tiles.show.at("box"),
        (2 * x) / canvas.width - 1,
        1 - (2 * y) / canvas.height,
        (2 * (x + tile.across * state.zoom)) / canvas.width - 1,
        1 - (2 * (y + tile.down * state.zoom)) / canvas.height,
      );
      gl.uniform2f(tiles.show.at("last"), ...tile.last);
      tiles.gpu.bind(0, gl.TEXTURE_2D, tile.texture);
      const filter = tile.scale === state.zoom ? gl.NEAREST : gl.LINEAR;
      gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MIN_FILTER, filter);
      gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MAG_FILTER, filter);
      gl.drawArrays(gl.TRIANGLE_STRIP, 0, 4);
      tile.used = tiles.clock;
    }
  }
  gl.disable(gl.SCISSOR_TEST);
}

// Returns the available tiles of a layer, with the preview, the best last; or only the exact tiles if
// they cover the layer. A tile that is finer than the screen is better than a coarser one.
function drawn(layer) {
  const snapshot = snapshotOf(layer.kind, state.shown);
  const [left, top, right, bottom] = boxOf(layer);
  const found = [tiles.preview, ...tiles.cache.values()].filter((tile) => {
    if (tile.kind !== layer.kind || tile.snapshot !== snapshot) return false;
    if (tile.column * tile.across >= right || (tile.column + 1) * tile.across <= left) return false;
    if (tile.row * tile.down >= bottom || (tile.row + 1) * tile.down <= top) return false;
    return tile === tiles.preview || tile.scale <= MOST_FINER * state.zoom;
  });
  const exact = found.filter((tile) => tile.scale === state.zoom && tile !== tiles.preview);
  if (exact.length >= tiles.cover(state.zoom, boxOf(layer)).length) return exact;
  const worth = ({ scale }) => (scale < state.zoom ? scale / state.zoom : 1 + state.zoom / scale);
  return found.sort((a, b) => worth(a) - worth(b));
}

const darkness = matchMedia("(prefers-color-scheme: dark)");
function colours() {
  return darkness.matches
    ? { paper: [0.082, 0.078, 0.071], checker: [0.23, 0.21, 0.19, 0.118, 0.11, 0.098] }
    : { paper: [0.98, 0.973, 0.957], checker: [0.914, 0.902, 0.875, 1, 1, 1] };
}
