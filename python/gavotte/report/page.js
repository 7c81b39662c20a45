const tip = document.getElementById("tip");
const tables = new Map();
function table(grid) {
  if (!tables.has(grid)) tables.set(grid, JSON.parse(document.getElementById(grid.dataset.for).textContent));
  return tables.get(grid);
}
// The page has other contents now.
document.addEventListener("renewed", () => tables.clear());
const shown = value => value === null ? "not known" : String(Number(value.toPrecision(3)));
function line(layer, cell) {
  const value = layer.values[cell];
  if (layer.words.length) return layer.words[value];
  if (value === null && layer.high) return null;
  const to = layer.high && layer.high[cell] !== null ? " to " + shown(layer.high[cell]) : "";
  return `${layer.label} ${shown(value)}${to}${value === null ? "" : " " + layer.unit}`;
}
function place(grid, event) {
  const { names, cell, left } = table(grid);
  const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(grid.getScreenCTM().inverse());
  const row = Math.floor((at.y - left) / cell), column = Math.floor((at.x - left) / cell);
  return row in names && column in names && row !== column ? { row, column } : null;
}
function cellText(grid, event) {
  const { names, layers } = table(grid), at = place(grid, event);
  if (!at) return "";
  const { row, column } = at;
  const lines = layers.map(each => line(each, row * names.length + column)).filter(Boolean);
  return [`${names[row]} to ${names[column]}`, ...lines].join("\n");
}
for (const kind of ["pointermove", "pointerdown"]) document.addEventListener(kind, event => {
  const grid = event.target.closest("svg[data-for]"), marked = event.target.closest("[data-tip]");
  const text = grid ? cellText(grid, event) : marked ? marked.dataset.tip : "";
  tip.style.display = text ? "block" : "none";
  tip.textContent = text;
  tip.style.left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 4) + "px";
  tip.style.top = Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 4) + "px";
});
document.addEventListener("click", event => {
  const grid = event.target.closest("svg[data-pairs]"), at = grid && place(grid, event);
  if (!at) return;
  const { names } = table(grid);
  location = `${grid.dataset.pairs}?${new URLSearchParams({ source: names[at.row], target: names[at.column] })}`;
});
