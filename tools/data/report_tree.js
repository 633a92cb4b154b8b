// The call stacks as a tree: lines that open and close, each with its bytes, its share of all, and its blocks.
"use strict";
const MOST_LINES = 100; // below one line; the rest stands in one more, since nobody reads thousands

// Draws into `box`, and keeps what was opened and closed by hand while events are stepped through.
function callTree(box, isProgram) {
  const byHand = new Map(); // by path: whether it is open
  let root = null, what = "", needle = "", current = "", lines = [];
  const keyOf = (path) => path.join("\n");
  const hitBelow = (node) => [...node.children.values()].some((child) => child.name.toLowerCase().includes(needle) || hitBelow(child));
  // By itself a line is open where it holds half of all bytes or more, so that the way to most of them is seen at once;
  // and where what is sought is below it.
  const isOpen = (node, path) => node.children.size > 0 &&
    (byHand.get(keyOf(path)) ?? (needle ? hitBelow(node) : node === root || node.bytes >= root.bytes / 2));

  function draw(newRoot = root, newWhat = what, newNeedle = needle) {
    [root, what, needle] = [newRoot, newWhat, newNeedle];
    const held = box.contains(document.activeElement), pieces = document.createDocumentFragment();
    lines = [];
    let hits = 0;
    const put = (node, path, level, place, of) => {
      const open = isOpen(node, path), name = node === root ? what : node.name, line = document.createElement("div");
      const hit = needle && name.toLowerCase().includes(needle);
      if (hit) hits++;
      line.className = "line" + (node === root || isProgram(name) ? " program" : "") + (needle ? (hit ? " hit" : " miss") : "");
      line.setAttribute("role", "treeitem");
      for (const [key, value] of [["level", level + 1], ["posinset", place], ["setsize", of]]) line.setAttribute("aria-" + key, value);
      if (node.children.size) line.setAttribute("aria-expanded", open);
      line.style.setProperty("--level", level);
      line.dataset.name = name; line.dataset.bytes = node.bytes;
      const share = ((100 * node.bytes) / (root.bytes || 1)).toFixed(1) + " %";
      for (const words of [`${node.children.size ? (open ? "\u25be" : "\u25b8") : "\u00b7"} ${name}`, size(node.bytes), share,
        `${node.blocks} block${node.blocks === 1 ? "" : "s"}`]) {
        const cell = document.createElement("span");
        cell.textContent = words;
        line.append(cell);
      }
      line.title = `${name}\n${node.bytes} bytes, ${share} of ${what}, ${node.blocks} blocks`;
      const number = lines.push({ line, node, path, level, open }) - 1;
      line.onclick = () => { current = keyOf(path); toggle(number, !open); };
      line.onfocus = () => select(number);
      pieces.append(line);
      if (!open) return;
      const ranked = [...node.children.values()].sort((p, q) => q.bytes - p.bytes), shown = ranked.slice(0, MOST_LINES);
      shown.forEach((child, k) => put(child, [...path, child.name], level + 1, k + 1, shown.length));
      const rest = ranked.slice(MOST_LINES);
      if (!rest.length) return;
      const told = document.createElement("div");
      told.className = "line soft";
      told.style.setProperty("--level", level + 1);
      told.textContent = `and ${rest.length} more, ${size(rest.reduce((sum, child) => sum + child.bytes, 0))}`;
      pieces.append(told);
    };
    put(root, [], 0, 1, 1);
    box.replaceChildren(pieces);
    const at = Math.max(lines.findIndex((one) => keyOf(one.path) === current), 0);
    select(at);
    if (held) lines[at].line.focus({ preventScroll: true });
    return { hits, count: lines.length };
  }
  // The one line that the tab key reaches.
  function select(number) {
    current = keyOf(lines[number].path);
    lines.forEach((one, k) => { one.line.tabIndex = k === number ? 0 : -1; });
  }
  function toggle(number, open) {
    if (!lines[number].node.children.size) return;
    byHand.set(keyOf(lines[number].path), open);
    draw();
  }
  const parentOf = (number) => { let k = number; while (k > 0 && lines[k].level >= lines[number].level) k--; return k; };
  const moves = {
    ArrowDown: (k) => k + 1, ArrowUp: (k) => k - 1, Home: () => 0, End: () => lines.length - 1,
    ArrowRight: (k) => (lines[k].open ? k + 1 : (toggle(k, true), k)),
    ArrowLeft: (k) => (lines[k].open ? (toggle(k, false), k) : parentOf(k)),
    Enter: (k) => (toggle(k, !lines[k].open), k), " ": (k) => (toggle(k, !lines[k].open), k),
    "*": (k) => {
      const above = parentOf(k), beside = k ? lines.filter((one) => one.level === lines[k].level && keyOf(one.path.slice(0, -1)) === keyOf(lines[above].path)) : [lines[0]];
      for (const one of beside) byHand.set(keyOf(one.path), true);
      const path = lines[k].path;
      draw();
      return lines.findIndex((one) => keyOf(one.path) === keyOf(path));
    },
  };
  box.addEventListener("keydown", (event) => {
    const at = lines.findIndex((one) => one.line === document.activeElement), move = moves[event.key];
    if (at < 0 || !move || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation(); // the page's arrows pan
    const next = lines[Math.min(Math.max(move(at), 0), lines.length - 1)].line;
    next.focus({ preventScroll: true });
    next.scrollIntoView({ block: "nearest" });
  });
  return { draw };
}
