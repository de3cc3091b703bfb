// The actions of keys and buttons.

// Returns whether the focused element of the page handles a key itself.
function isTaken(target, key) {
  if (target.tagName === "SELECT" || target.closest?.("dialog")) return true;
  if (target.tagName === "BUTTON") return key === " ";
  return target === part("time") && key.startsWith("Arrow");
}

function listen() {
  listenToPointers(canvas, { move, zoomBy, hover: showPlace });
  const fitted = () => { fit(); changed(); };
  const keys = {
    ...keysOf({ move, zoomBy, fit: fitted, far: () => canvas.height / 8 }),
    1: () => zoomBy(1 / state.zoom),
    " ": () => LAST && setPlaying(!isPlaying),
    ",": () => showSnapshot(state.snapshot - 1),
    ".": () => showSnapshot(state.snapshot + 1),
  };
  document.addEventListener("keydown", (event) => {
    const { target, key } = event;
    if (event.ctrlKey || event.metaKey || event.altKey || !(key in keys)) return;
    if (isTaken(target, key)) return;
    event.preventDefault();
    if (target === part("split") && key.startsWith("Arrow")) {
      target.value = Number(target.value) + (key === "ArrowLeft" || key === "ArrowDown" ? -2 : 2);
      compare();
    } else keys[key]();
  });
  part("in").addEventListener("click", () => zoomBy(2));
  part("out").addEventListener("click", () => zoomBy(0.5));
  part("fit").addEventListener("click", fitted);
  part("play").addEventListener("click", () => setPlaying(!isPlaying));
  part("time").addEventListener("input", () => {
    if (isPlaying) setPlaying(false);
    showSnapshot(Number(part("time").value));
  });
  const compare = () => {
    const isSplit = compared() !== "none";
    part("divider").hidden = !isSplit;
    part("divider").style.setProperty("--split", `${part("split").value}%`);
    part("other").textContent = part("compare").selectedOptions[0].textContent;
    changed();
  };
  part("compare").addEventListener("change", compare);
  part("split").addEventListener("input", compare);
  darkness.addEventListener("change", changed);
  new ResizeObserver(resized).observe(canvas);
}

function showPlace([x, y]) {
  const [left, top] = origin();
  const digits = Math.max(0, Math.ceil(Math.log10(state.zoom)) - 1);
  const text = (px) => (px / state.zoom).toFixed(Math.min(5, digits));
  part("place").textContent = `x ${text(x - left)}, y ${text(y - top)}`;
}
