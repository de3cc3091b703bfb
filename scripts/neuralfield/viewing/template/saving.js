// Saves the view or the whole image as a PNG.

// Returns the visible part of the image, in fractions of its sides.
function seenBox() {
  const [left, top, right, bottom] = seen();
  const inside = (value, side) => Math.min(1, Math.max(0, value / side));
  const { width, height } = network;
  return [inside(left, width), inside(top, height), inside(right, width), inside(bottom, height)];
}

function sizeToSave() {
  const box = part("whole").checked ? [0, 0, 1, 1] : seenBox();
  const [across, down] = [(box[2] - box[0]) * network.width, (box[3] - box[1]) * network.height];
  const longer = Math.min(16384, Math.max(1, Math.round(Number(part("longer").value) || 1)));
  const scale = longer / Math.max(across, down);
  return { box, width: Math.max(1, Math.round(across * scale)), height: Math.max(1, Math.round(down * scale)) };
}

async function save() {
  const { box, width, height } = sizeToSave();
  const about = { snapshot: state.snapshot, width, height, box };
  part("saving").textContent = "Rendering …";
  const pixels = await tiles.pixels(about);
  const saved = new ImageData(pixels, width, height);
  const kind = compared();
  if (kind !== "none" && !part("whole").checked) {
    const [left, , right] = seen();
    const split = left + ((right - left) * part("split").value) / 100;
    const column = Math.round((width * (split / network.width - box[0])) / (box[2] - box[0]));
    const other = await tiles.pixels({ ...about, kind });
    for (let i = 0; i < pixels.length; ++i) if ((i >> 2) % width >= column) saved.data[i] = other[i];
  }
  const sheet = new OffscreenCanvas(width, height);
  sheet.getContext("2d").putImageData(saved, 0, 0);
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await sheet.convertToBlob({ type: "image/png" }));
  link.download = `${page.file}_${width}x${height}.png`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  part("saving").textContent = `Saved ${link.download}`;
}

function listenToSaving() {
  const dialog = part("save-dialog");
  const show = () => {
    const { width, height } = sizeToSave();
    part("saving").textContent = `${count(width)} × ${count(height)} pixels`;
  };
  part("save").addEventListener("click", () => {
    part("longer").value = Math.max(canvas.width, canvas.height);
    show();
    dialog.showModal();
  });
  for (const id of ["longer", "whole"]) part(id).addEventListener("input", show);
  part("close").addEventListener("click", () => dialog.close());
  part("start").addEventListener("click", () => save().catch((error) => {
    part("saving").textContent = `This size cannot be saved here: ${error.message}`;
  }));
}
