// What pointers, wheels, fingers and keys do.

function point(event) {
  const box = canvas.getBoundingClientRect();
  const ratio = canvas.width / box.width;
  return [(event.clientX - box.left) * ratio, (event.clientY - box.top) * ratio];
}

// Returns whether a key means something else to the part of the page that has the focus.
function isTaken(target, key) {
  if (target.tagName === "SELECT" || target.closest?.("dialog")) return true;
  if (target.tagName === "BUTTON") return key === " ";
  return target === part("time") && key.startsWith("Arrow");
}

function listen() {
  const pointers = new Map();
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, point(event));
  });
  canvas.addEventListener("pointermove", (event) => {
    const now = point(event);
    showPlace(now);
    const before = pointers.get(event.pointerId);
    if (!before) return;
    const others = [...pointers].filter(([id]) => id !== event.pointerId).map(([, place]) => place);
    pointers.set(event.pointerId, now);
    if (!others.length) {
      move(now[0] - before[0], now[1] - before[1]);
      return;
    }
    const [other] = others;
    const far = (place) => Math.hypot(place[0] - other[0], place[1] - other[1]) || 1;
    const middle = [(now[0] + other[0]) / 2, (now[1] + other[1]) / 2];
    move((now[0] - before[0]) / 2, (now[1] - before[1]) / 2);
    zoomBy(far(now) / far(before), middle);
  });
  for (const end of ["pointerup", "pointercancel"]) {
    canvas.addEventListener(end, (event) => pointers.delete(event.pointerId));
  }
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const unit = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 400 : 1;
    const speed = event.ctrlKey ? 0.01 : 0.002;
    zoomBy(Math.exp(-Math.max(-300, Math.min(300, event.deltaY * unit)) * speed), point(event));
  }, { passive: false });
  canvas.addEventListener("dblclick", (event) => zoomBy(event.shiftKey ? 0.5 : 2, point(event)));
  const far = () => canvas.height / 8;
  const keys = {
    ArrowLeft: () => move(far(), 0),
    ArrowRight: () => move(-far(), 0),
    ArrowUp: () => move(0, far()),
    ArrowDown: () => move(0, -far()),
    "+": () => zoomBy(1.5),
    "=": () => zoomBy(1.5),
    "-": () => zoomBy(1 / 1.5),
    0: () => { fit(); changed(); },
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
  part("fit").addEventListener("click", keys[0]);
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
