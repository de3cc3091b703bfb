// Pointers on a canvas: dragging moves the view; two fingers and the wheel zoom. Keys do both, too.

// Returns the action of each key. Arrows move by `far()`, in pixels of the canvas.
function keysOf({ move, zoomBy, fit, far }) {
  return {
    ArrowLeft: () => move(far(), 0),
    ArrowRight: () => move(-far(), 0),
    ArrowUp: () => move(0, far()),
    ArrowDown: () => move(0, -far()),
    "+": () => zoomBy(1.5),
    "=": () => zoomBy(1.5),
    "-": () => zoomBy(1 / 1.5),
    0: fit,
  };
}

// Returns the position of an event, in pixels of the canvas.
function placeOn(canvas, event) {
  const box = canvas.getBoundingClientRect();
  const ratio = canvas.width / box.width;
  return [(event.clientX - box.left) * ratio, (event.clientY - box.top) * ratio];
}

// `move` is called with pixels across and down, `zoomBy` with a factor and the position that stays
// fixed, and `hover` with the position of a pointer.
function listenToPointers(canvas, { move, zoomBy, hover = () => {} }) {
  const pointers = new Map();
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, placeOn(canvas, event));
  });
  canvas.addEventListener("pointermove", (event) => {
    const now = placeOn(canvas, event);
    hover(now);
    const before = pointers.get(event.pointerId);
    if (!before) return;
    const other = [...pointers].find(([id]) => id !== event.pointerId)?.[1];
    pointers.set(event.pointerId, now);
    const share = other ? 0.5 : 1; // two fingers move the view by their midpoint
    move(share * (now[0] - before[0]), share * (now[1] - before[1]));
    if (other) {
      const far = (place) => Math.hypot(place[0] - other[0], place[1] - other[1]) || 1;
      zoomBy(far(now) / far(before), [(now[0] + other[0]) / 2, (now[1] + other[1]) / 2]);
    }
  });
  for (const end of ["pointerup", "pointercancel"]) {
    canvas.addEventListener(end, (event) => pointers.delete(event.pointerId));
  }
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const unit = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 400 : 1;
    const speed = event.ctrlKey ? 0.01 : 0.002;
    const factor = Math.exp(-Math.max(-300, Math.min(300, event.deltaY * unit)) * speed);
    zoomBy(factor, placeOn(canvas, event));
  }, { passive: false });
  canvas.addEventListener("dblclick", (event) => zoomBy(event.shiftKey ? 0.5 : 2, placeOn(canvas, event)));
}
