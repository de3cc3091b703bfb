// Pans and zooms a Deep Zoom pyramid. Coarser tiles are shown until finer ones are loaded.

const MOST_TILES = 600; // kept; the least recently seen ones are dropped
const FINEST = 16; // maximum screen pixels per pixel of the image

function showPyramid(pyramid) {
  const canvas = document.getElementById("canvas");
  const context = canvas.getContext("2d");
  const top = Math.ceil(Math.log2(Math.max(pyramid.width, pyramid.height, 1)));
  const tiles = new Map();
  // the centre of the view, in pixels of the image, and screen pixels per pixel of the image
  const view = { x: pyramid.width / 2, y: pyramid.height / 2, scale: 1 };
  let isDue = false;

  const fitting = () => Math.min(canvas.width / pyramid.width, canvas.height / pyramid.height);

  function fit() {
    Object.assign(view, { x: pyramid.width / 2, y: pyramid.height / 2, scale: fitting() });
    draw();
  }

  function draw() {
    if (isDue) return;
    isDue = true;
    requestAnimationFrame(drawNow);
  }

  function tileAt(level, column, row) {
    const key = `${level}/${column}_${row}`;
    let tile = tiles.get(key);
    if (tile) {
      tiles.delete(key);
    } else {
      tile = new Image();
      tile.onload = draw;
      tile.src = `image_files/${key}${pyramid.suffix}`;
    }
    tiles.set(key, tile); // so that the last ones of the map were seen last
    return tile;
  }

  function drawNow() {
    isDue = false;
    const least = Math.min(fitting(), 1);
    view.scale = Math.min(Math.max(view.scale, least), Math.max(FINEST, least));
    view.x = Math.min(Math.max(view.x, 0), pyramid.width);
    view.y = Math.min(Math.max(view.y, 0), pyramid.height);
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, canvas.width, canvas.height);
    context.imageSmoothingEnabled = view.scale < 2;
    const wanted = Math.min(top, Math.max(0, top + Math.ceil(Math.log2(view.scale))));
    const coarsest = Math.max(0, Math.min(wanted, 8)); // at level 8 one tile has the whole image
    for (let level = coarsest; level <= wanted; level++) drawLevel(level, level === wanted);
    for (const key of tiles.keys()) {
      if (tiles.size <= MOST_TILES) break;
      tiles.delete(key);
    }
    document.getElementById("zoom").textContent = `${(100 * view.scale).toPrecision(3)} %`;
    document.body.dataset.ready = [...tiles.values()].every((tile) => tile.complete) ? "1" : "0";
  }

  function drawLevel(level, isWanted) {
    const factor = 2 ** (top - level); // pixels of the image per pixel of the level
    const width = Math.ceil(pyramid.width / factor), height = Math.ceil(pyramid.height / factor);
    const zoom = view.scale * factor;
    const left = canvas.width / 2 - view.x * view.scale;
    const above = canvas.height / 2 - view.y * view.scale;
    const side = pyramid.tile;
    const first = (start) => Math.max(0, Math.floor(-start / zoom / side));
    const end = (start, room, length) =>
      Math.min(Math.ceil(length / side), Math.ceil((room - start) / zoom / side));
    for (let row = first(above); row < end(above, canvas.height, height); row++) {
      for (let column = first(left); column < end(left, canvas.width, width); column++) {
        // request no tiles of coarser levels, except for the coarsest
        if (!isWanted && level > 8 && !tiles.has(`${level}/${column}_${row}`)) continue;
        const tile = tileAt(level, column, row);
        if (!tile.complete || !tile.naturalWidth) continue;
        const x = column * side - (column ? pyramid.overlap : 0);
        const y = row * side - (row ? pyramid.overlap : 0);
        context.drawImage(tile, left + x * zoom, above + y * zoom,
          tile.naturalWidth * zoom, tile.naturalHeight * zoom);
      }
    }
  }

  function zoomBy(factor, [x, y] = [canvas.width / 2, canvas.height / 2]) {
    const before = view.scale;
    view.scale = Math.min(Math.max(before * factor, Math.min(fitting(), 1)), FINEST);
    view.x += (x - canvas.width / 2) * (1 / before - 1 / view.scale);
    view.y += (y - canvas.height / 2) * (1 / before - 1 / view.scale);
    draw();
  }

  function move(x, y) {
    view.x -= x / view.scale;
    view.y -= y / view.scale;
    draw();
  }

  listenToPointers(canvas, { move, zoomBy });
  const keys = keysOf({ move, zoomBy, fit, far: () => canvas.width / 8 });
  canvas.addEventListener("keydown", (event) => {
    if (!(event.key in keys)) return;
    event.preventDefault();
    keys[event.key]();
  });

  let isFirst = true;
  new ResizeObserver(() => {
    canvas.width = Math.max(1, Math.round(canvas.clientWidth * devicePixelRatio));
    canvas.height = Math.max(1, Math.round(canvas.clientHeight * devicePixelRatio));
    if (isFirst) fit();
    isFirst = false;
    draw();
  }).observe(canvas);
  window.viewer = { view, draw, zoomBy };
}
