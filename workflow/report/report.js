const KEY_STEP = 2; // percent of the width, for an arrow key
const MOST_ZOOM = 32;

// Two images on top of each other, split by a line, both zoomed and moved together.
class Comparison {
  constructor(figure) {
    this.figure = figure;
    this.stage = figure.querySelector(".stage");
    this.range = figure.querySelector("input");
    this.zoom = 1;
    [this.x, this.y] = [0, 0]; // the view's top left corner, in fractions of the image's sides
    this.pointers = new Map();
    for (const select of figure.querySelectorAll("select")) {
      select.addEventListener("change", () => this.show(select));
      this.show(select);
    }
    for (const button of figure.querySelectorAll("[data-zoom]")) {
      const factor = Number(button.dataset.zoom);
      button.addEventListener("click", () => this.zoomBy(factor || 1 / this.zoom));
    }
    this.range.addEventListener("input", () => this.place());
    this.range.addEventListener("keydown", (event) => this.key(event));
    this.stage.addEventListener("dblclick", (event) => this.zoomBy(event.shiftKey ? 0.5 : 2, this.at(event)));
    this.stage.addEventListener("pointerdown", (event) => this.down(event));
    this.stage.addEventListener("pointermove", (event) => this.moved(event));
    for (const end of ["pointerup", "pointercancel"]) {
      this.stage.addEventListener(end, (event) => this.pointers.delete(event.pointerId));
    }
    this.place();
    figure.hidden = false;
  }

  show(select) {
    const image = this.figure.querySelector(`.${select.dataset.side} img`);
    image.src = document.getElementById(select.value).src;
    image.alt = select.selectedOptions[0].textContent;
  }

  // Returns the position of a pointer, in fractions of the stage's sides.
  at(event) {
    const box = this.stage.getBoundingClientRect();
    return [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
  }

  place() {
    const { style } = this.stage;
    style.setProperty("--split", `${this.range.value}%`);
    style.setProperty("--zoom", this.zoom);
    style.setProperty("--x", `${-100 * this.x * this.zoom}%`);
    style.setProperty("--y", `${-100 * this.y * this.zoom}%`);
    this.stage.classList.toggle("zoomed", this.zoom > 1);
    this.figure.querySelector("output").textContent = `${Math.round(10 * this.zoom) / 10}×`;
  }

  zoomBy(factor, [x, y] = [0.5, 0.5]) {
    const before = this.zoom;
    this.zoom = Math.min(MOST_ZOOM, Math.max(1, before * factor));
    this.move(x / before - x / this.zoom, y / before - y / this.zoom);
  }

  move(x, y) {
    const inside = (value) => Math.min(1 - 1 / this.zoom, Math.max(0, value));
    [this.x, this.y] = [inside(this.x + x), inside(this.y + y)];
    this.place();
  }

  split(x) {
    this.range.value = 100 * x;
    this.place();
  }

  key(event) {
    const step = { ArrowLeft: -KEY_STEP, ArrowDown: -KEY_STEP, ArrowRight: KEY_STEP, ArrowUp: KEY_STEP }[event.key];
    if (step) this.split((Number(this.range.value) + step) / 100);
    else if (event.key === "+" || event.key === "=") this.zoomBy(2);
    else if (event.key === "-") this.zoomBy(0.5);
    else return;
    event.preventDefault();
  }

  // A pointer drags the line if it is near the line, or if the image is not zoomed.
  down(event) {
    this.stage.setPointerCapture(event.pointerId);
    const place = this.at(event);
    const width = this.stage.getBoundingClientRect().width;
    const isLine = this.zoom === 1 || Math.abs(place[0] - this.range.value / 100) * width < 28;
    this.pointers.set(event.pointerId, { place, isLine });
    if (isLine && this.pointers.size === 1) this.split(place[0]);
    this.range.focus({ preventScroll: true });
    event.preventDefault();
  }

  moved(event) {
    const own = this.pointers.get(event.pointerId);
    if (!own) return;
    const [before, now] = [own.place, this.at(event)];
    own.place = now;
    const other = [...this.pointers.values()].find((pointer) => pointer !== own)?.place;
    if (other) {
      const far = (place) => Math.hypot(place[0] - other[0], place[1] - other[1]) || 0.01;
      this.zoomBy(far(now) / far(before), other);
    } else if (own.isLine) this.split(now[0]);
    else this.move((before[0] - now[0]) / this.zoom, (before[1] - now[1]) / this.zoom);
  }
}

for (const figure of document.querySelectorAll(".compare")) new Comparison(figure);

// Time-lapses play while they are visible, unless the reader has paused them.
const isCalm = matchMedia("(prefers-reduced-motion: reduce)").matches;
const seen = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    if (!isIntersecting) {
      target.dataset.leaving = "1";
      target.pause();
    } else if (!isCalm && !target.dataset.stopped) {
      target.play().catch(() => {});
    }
  }
}, { threshold: 0.25 });
for (const video of document.querySelectorAll("video")) {
  video.addEventListener("pause", () => {
    if (!video.dataset.leaving) video.dataset.stopped = "1";
    delete video.dataset.leaving;
  });
  video.addEventListener("play", () => delete video.dataset.stopped);
  seen.observe(video);
}

// Snakemake's own report shows this page in a frame, without the files beside it that its links name.
if (window.self !== window.top) {
  for (const links of document.querySelectorAll(".beside")) links.remove();
}

// Sorts rows by the `data-value` of their cells, or by their text if there is none; empty cells are last.
function sorted(rows, column, sign) {
  const of = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent.trim();
  return rows.sort((a, b) => {
    const [x, y] = [of(a), of(b)];
    if (x === "" || y === "") return (x === "") - (y === "");
    const isNumber = !Number.isNaN(Number(x)) && !Number.isNaN(Number(y));
    return sign * (isNumber ? x - y : x.localeCompare(y, "en", { numeric: true }));
  });
}

for (const table of document.querySelectorAll("table.sortable")) {
  const headings = [...table.tHead.rows[0].cells];
  headings.forEach((heading, column) => {
    const button = document.createElement("button");
    button.append(...heading.childNodes);
    heading.append(button);
    button.addEventListener("click", () => {
      const order = heading.getAttribute("aria-sort");
      const first = heading.dataset.first ?? "descending";
      const next = order === null ? first : order === "ascending" ? "descending" : "ascending";
      for (const other of headings) other.removeAttribute("aria-sort");
      heading.setAttribute("aria-sort", next);
      const body = table.tBodies[0];
      body.append(...sorted([...body.rows], column, next === "ascending" ? 1 : -1));
    });
  });
}
