for (const figure of document.querySelectorAll(".compare")) {
  const stage = figure.querySelector(".stage");
  const range = figure.querySelector("input");
  const split = () => stage.style.setProperty("--split", range.value + "%");
  for (const select of figure.querySelectorAll("select")) {
    const shown = figure.querySelector("." + select.dataset.side);
    const show = () => {
      shown.src = document.getElementById(select.value).src;
      shown.alt = select.selectedOptions[0].textContent;
    };
    select.addEventListener("change", show);
    show();
  }
  range.addEventListener("input", split);
  split();
  figure.hidden = false;
}
if (matchMedia("(prefers-reduced-motion: reduce)").matches) {
  for (const film of document.querySelectorAll("video")) {
    film.autoplay = false;
    film.pause();
  }
}
