"use strict";
(() => {
  const source = document.getElementById("data").textContent;
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  const shown = {}; // figure name -> number of the view
  let printing = false;

  // Figures: colours that begin with @ follow the theme.
  const themed = () => {
    const css = getComputedStyle(document.documentElement);
    const light = { ink: "#000000", paper: "#ffffff", line: "#bbbbbb", soft: "#444444" };
    return JSON.parse(source, (key, value) => {
      if (typeof value !== "string" || !/^@(ink|paper|line|soft)$/.test(value)) return value;
      return printing ? light[value.slice(1)] : css.getPropertyValue("--" + value.slice(1)).trim();
    }).figures;
  };
  const frame = (view) => {
    const css = getComputedStyle(document.documentElement);
    const ink = printing ? "#000000" : css.getPropertyValue("--ink").trim();
    const line = printing ? "#bbbbbb" : css.getPropertyValue("--line").trim();
    const axis = { gridcolor: line, zerolinecolor: line, linecolor: line, automargin: true };
    return {
      height: 440, margin: { l: 70, r: 20, t: 30, b: 110 }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: ink, size: 13, family: "system-ui, sans-serif" }, showlegend: true, legend: { orientation: "h", yref: "container", y: 0, yanchor: "bottom" },
      hoverlabel: { align: "left" }, ...view.layout,
      xaxis: { ...axis, ...view.layout.xaxis }, yaxis: { ...axis, ...view.layout.yaxis },
      ...(printing ? { width: 900 } : {}),
    };
  };
  const options = { responsive: true, displaylogo: false, displayModeBar: false };
  const draw = (name, figures = themed()) => {
    const place = document.getElementById("plot-" + name);
    if (!place || place.closest("[hidden]")) return;
    const view = Object.values(figures[name])[shown[name] || 0];
    Plotly.react(place, view.data, frame(view), options);
  };
  const drawAll = () => {
    const figures = themed();
    for (const name of Object.keys(figures)) draw(name, figures);
  };
  for (const select of document.querySelectorAll("select[data-figure]")) {
    select.addEventListener("change", () => {
      shown[select.dataset.figure] = Number(select.value);
      draw(select.dataset.figure);
    });
  }
  scheme.addEventListener("change", drawAll);

  // Filter by threat.
  const filters = [...document.querySelectorAll("[data-show]")];
  const report = document.getElementById("shown");
  const apply = (threat) => {
    for (const button of filters) button.setAttribute("aria-pressed", String(button.dataset.show === threat));
    for (const item of document.querySelectorAll(".filter ~ section [data-threat]")) {
      item.hidden = threat !== "all" && item.dataset.threat !== threat;
    }
    const lines = [...document.querySelectorAll(".matrix tbody tr")];
    report.textContent = `${lines.filter((line) => !line.hidden).length} of ${lines.length} attacks shown`;
    drawAll();
  };
  for (const button of filters) button.addEventListener("click", () => apply(button.dataset.show));

  // A cell opens its detail.
  const dialog = document.getElementById("detail");
  const inside = document.getElementById("inside");
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-detail]");
    if (button) {
      inside.replaceChildren(document.getElementById(button.dataset.detail).content.cloneNode(true));
      dialog.setAttribute("aria-label", inside.querySelector("h4").textContent);
      dialog.showModal();
      dialog.scrollTop = 0;
    } else if (event.target === dialog) {
      dialog.close(); // a click beside it
    }
  });

  // Arrow keys walk the matrix; Tab goes through it as usual.
  const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  document.addEventListener("keydown", (event) => {
    const cell = event.target.closest && event.target.closest(".matrix td");
    if (!cell || !steps[event.key]) return;
    const lines = [...document.querySelectorAll(".matrix tbody tr")].filter((line) => !line.hidden);
    const [down, across] = steps[event.key];
    const line = lines[lines.indexOf(cell.parentElement) + down];
    const next = line && line.cells[cell.cellIndex + across];
    const button = next && next.querySelector("button");
    if (button) {
      event.preventDefault();
      button.focus();
    }
  });

  // On paper: light, as wide as the page, with every figure's data table.
  let closed = [];
  addEventListener("beforeprint", () => {
    printing = true;
    closed = [...document.querySelectorAll("details.data:not([open])")];
    for (const item of closed) item.open = true;
    drawAll();
  });
  addEventListener("afterprint", () => {
    printing = false;
    for (const item of closed) item.open = false;
    drawAll();
  });
  apply("all");
})();
