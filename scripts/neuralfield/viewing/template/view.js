// The page: the view, which can be moved, played, compared and saved.

const page = JSON.parse(document.getElementById("page").textContent);
const network = page.network ?? { width: 1, height: 1 };
const part = (id) => document.getElementById(id);
const canvas = part("canvas");
const AS_STORED = { premultiplyAlpha: "none", colorSpaceConversion: "none" };
const LAST = page.snapshots.length - 1;
const state = { x: network.width / 2, y: network.height / 2, zoom: 0, snapshot: LAST, shown: LAST };
let tiles = null;
let isFitted = true;
let isStale = true;
let isPlaying = false;
let isDue = false;
let finished = 0; // number of finished tiles when the screen was last drawn
let playedAt = 0;
let movedAt = 0;
let planned = [];
let store = null;
let bitmaps = null; // of the training image and of the preview

const compared = () => part("compare").value;
const count = (value) => Math.round(value).toLocaleString("en");
const mostZoom = () => Math.max(64, 2 ** 21 / Math.max(network.width, network.height));

function fit() {
  const ratio = canvas.width / canvas.clientWidth || 1;
  const [across, down] = [canvas.width, canvas.height - ratio * page.margins];
  const zoom = 0.94 * Math.min(across / network.width, down / network.height);
  // a whole number of screen pixels per pixel of the image, if that costs little size
  state.zoom = zoom > 3 ? Math.floor(zoom) : zoom;
  [state.x, state.y] = [network.width / 2, network.height / 2];
  isFitted = true;
}

function resized() {
  const ratio = Math.min(window.devicePixelRatio || 1, 3);
  const size = [canvas.clientWidth, canvas.clientHeight].map((side) => Math.max(1, Math.round(side * ratio)));
  if (canvas.width === size[0] && canvas.height === size[1] && state.zoom) return;
  [canvas.width, canvas.height] = size;
  if (isFitted || !state.zoom) fit();
  changed();
  placePreview();
}

// Place the preview where the canvas will show the image.
function placePreview() {
  const ratio = canvas.width / canvas.clientWidth || 1;
  const [left, top] = origin();
  const sides = { left, top, width: network.width * state.zoom, height: network.height * state.zoom };
  const { style } = part("preview");
  style.inset = "auto";
  for (const [name, px] of Object.entries(sides)) style[name] = `${px / ratio}px`;
}

function changed() {
  state.zoom = Math.min(mostZoom(), Math.max(state.zoom, 4 / Math.max(network.width, network.height)));
  state.x = Math.min(network.width, Math.max(0, state.x));
  state.y = Math.min(network.height, Math.max(0, state.y));
  isStale = true;
  document.body.dataset.ready = "";
  describe();
}

// Returns the image's position on the screen, in whole pixels, so that tiles align with pixels.
function origin() {
  return [canvas.width / 2 - state.x * state.zoom, canvas.height / 2 - state.y * state.zoom].map(Math.round);
}

function seen() {
  const [left, top] = origin();
  return [-left, -top, canvas.width - left, canvas.height - top].map((px) => px / state.zoom);
}

// Returns the kinds of tiles that are needed, and the parts of the screen that they fill.
function layers() {
  const kind = compared();
  const split = Math.round((canvas.width * part("split").value) / 100);
  if (kind === "none") return [{ kind: "network", from: 0, to: canvas.width }];
  return [
    { kind: "network", from: 0, to: split },
    { kind, from: split, to: canvas.width },
  ];
}

const snapshotOf = (kind, snapshot) => (kind === "network" ? snapshot : LAST);
const has = (kind, snapshot, scale, { column, row }) =>
  tiles.cache.has(Tiles.key(kind, snapshot, scale, column, row));

// Returns scales from coarse to exact; the first takes about two frames to render. Coarse scales are
// powers of two, so that their tiles get finished and stay valid while the zoom changes.
function scales() {
  const pixels = canvas.width * canvas.height;
  const factor = Math.min(24, Math.sqrt(pixels / Math.max(1, tiles.pointsPerMs * 30)));
  const found = [];
  for (let coarse = Math.ceil(factor); coarse > 1.5; coarse /= 3) found.push(2 ** Math.floor(Math.log2(state.zoom / coarse)));
  found.push(state.zoom);
  return isPlaying ? found.slice(0, 1) : [...new Set(found)];
}

function boxOf({ from, to }) {
  const [left, top, right, bottom] = seen();
  const px = (place) => left + ((right - left) * place) / canvas.width;
  return [px(from), top, px(to), bottom];
}

function plan() {
  const wanted = [];
  const keys = new Set();
  planned = scales();
  for (const scale of planned) {
    const isCoarse = scale !== state.zoom;
    for (const layer of layers()) {
      const snapshot = snapshotOf(layer.kind, state.snapshot);
      const box = boxOf(layer);
      const exact = tiles.cover(state.zoom, box);
      if (isCoarse && exact.every((place) => has(layer.kind, snapshot, state.zoom, place))) continue;
      if (isCoarse && layer.kind === "network" && hasPreview(snapshot, scale)) continue;
      for (const place of tiles.cover(scale, box)) {
        const job = tiles.job(layer.kind, snapshot, scale, place, isCoarse);
        if (has(layer.kind, snapshot, scale, place) || keys.has(job.key)) continue;
        keys.add(job.key);
        wanted.push(job);
      }
    }
  }
  tiles.want(wanted);
}

// Returns whether the preview shows a snapshot at least as finely as tiles of a scale.
const hasPreview = (snapshot, scale) => snapshot === LAST && tiles.preview.scale >= scale;

// Returns whether the snapshot of the slider can be shown instead of the previous one.
function isReady() {
  if (hasPreview(state.snapshot, planned[0])) return true;
  const box = boxOf(layers()[0]);
  return planned.some((scale) =>
    tiles.cover(scale, box).every((place) => has("network", state.snapshot, scale, place)),
  );
}

const isThere = () => tiles && !tiles.gl.isContextLost();

// Call a function that uses the GPU, and show the preview from now on if it fails.
function attempt(act) {
  try {
    act();
  } catch (error) {
    refuse(error);
  }
}

function frame(now) {
  requestAnimationFrame(frame);
  if (isThere()) attempt(() => update(now));
}

function update(now) {
  if (isPlaying) play(now);
  if (isStale) plan();
  if (isStale) movedAt = now;
  tiles.isMoving = now - movedAt < 300;
  tiles.work();
  if (isStale || tiles.finished !== finished) draw();
  finished = tiles.finished;
  part("preview").hidden = true;
  isStale = false;
  document.body.dataset.ready = tiles.isBusy ? "" : "1";
  later();
}

// Between frames the GPU continues if the view is still; if the view moves, each frame has one slice.
function later() {
  if (isDue || !tiles.isBusy) return;
  isDue = true;
  setTimeout(() => {
    isDue = false;
    if (!isThere()) return;
    attempt(() => {
      if (tiles.isMoving) tiles.isWaiting();
      else tiles.work();
      later();
    });
  });
}

// Show the next snapshot when it is due. All are shown for the same time, about eight seconds in total;
// the first ones differ little.
function play(now) {
  if (now - playedAt < Math.min(400, 8000 / (LAST + 1)) || state.shown !== state.snapshot) return;
  playedAt = now;
  if (state.snapshot >= LAST) {
    setPlaying(false);
    return;
  }
  showSnapshot(state.snapshot + 1);
}

function setPlaying(value) {
  isPlaying = value;
  if (value && state.snapshot >= LAST) showSnapshot(0);
  part("play").setAttribute("aria-label", value ? "Pause the training" : "Play the training");
  part("play").classList.toggle("playing", value);
  changed();
}

function showSnapshot(index) {
  state.snapshot = Math.min(LAST, Math.max(0, index));
  part("time").value = state.snapshot;
  const { label } = page.snapshots[state.snapshot];
  part("time").setAttribute("aria-valuetext", label);
  part("step").textContent = label;
  changed();
}

// Describes the view in words and by a scale bar.
function describe() {
  const ratio = canvas.width / canvas.clientWidth || 1;
  const shownZoom = state.zoom / ratio;
  const digits = shownZoom < 10 ? 1 : 0;
  part("zoom").textContent = `${shownZoom.toLocaleString("en", { maximumFractionDigits: digits })}×`;
  let px = 10 ** Math.floor(Math.log10(120 / shownZoom));
  for (const factor of [5, 2]) if (px * factor * shownZoom <= 120) { px *= factor; break; }
  part("bar").style.width = `${px * shownZoom}px`;
  part("length").textContent = `${px.toLocaleString("en", { maximumSignificantDigits: 2 })} px`;
}

function zoomBy(factor, [x, y] = [canvas.width / 2, canvas.height / 2]) {
  const before = state.zoom;
  state.zoom = Math.min(mostZoom(), Math.max(before * factor, 4 / Math.max(network.width, network.height)));
  const shift = 1 / before - 1 / state.zoom;
  state.x += (x - canvas.width / 2) * shift;
  state.y += (y - canvas.height / 2) * shift;
  isFitted = false;
  changed();
}

function move(x, y) {
  state.x -= x / state.zoom;
  state.y -= y / state.zoom;
  isFitted = false;
  changed();
}

// Show a message, and the preview instead of the network.
function refuse(error) {
  tiles = null;
  part("message").textContent = `The network cannot be evaluated here: ${error.message}. The image shown is its render.`;
  part("message").hidden = false;
  part("preview").hidden = false;
  part("preview").removeAttribute("style");
  document.body.classList.add("still");
  document.body.dataset.ready = "1";
  if (!(error instanceof Refusal)) console.warn(error);
}

function start() {
  const gl = canvas.getContext("webgl2", { alpha: false, antialias: false, powerPreference: "high-performance" });
  if (!gl) throw new Refusal("this browser has no WebGL2");
  tiles = new Tiles(gl, network, store, ...bitmaps);
  isStale = true;
}

async function open() {
  if (page.refusal) throw new Refusal(page.refusal);
  if (!window.DecompressionStream) throw new Refusal("this browser is too old");
  await part("preview").decode();
  bitmaps = await Promise.all([bitmapOf(page.image), createImageBitmap(part("preview"), AS_STORED)]);
  store = new StoredWeights(page.weights, await inflated(part("weights").textContent));
  listen();
  listenToSaving();
  canvas.addEventListener("webglcontextlost", (event) => {
    event.preventDefault();
    placePreview();
    part("preview").hidden = false;
  });
  canvas.addEventListener("webglcontextrestored", () => attempt(start));
  resized();
  start();
  showSnapshot(LAST);
  requestAnimationFrame(frame);
}

async function bitmapOf(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  return createImageBitmap(new Blob([bytes]), AS_STORED);
}

// For tests and for anyone who opens the console.
window.viewer = {
  state,
  look: (place) => { Object.assign(state, place); isFitted = false; changed(); },
  pixels: (about) => tiles.pixels({ snapshot: LAST, ...about }),
  samples: (across) => samplesOf(network, across),
  get tiles() { return tiles; },
};

open().catch(refuse);
