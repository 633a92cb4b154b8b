// The report's page: what is shown, and what the controls, keys and clicks do.
"use strict";
const cuplug = (window.cuplug = { ready: false });
(async () => {
  const byId = (id) => document.getElementById(id);
  const page = JSON.parse(byId("meta").textContent);
  const views = page.views.map((meta, number) => new View(number, meta));
  for (const view of views) await view.open();
  let view = views[0];
  timeIs = views.some((one) => one.axis === "seconds") ? "seconds" : view.axis;
  const both = page.compare; // two runs, one above the other, by iteration
  const WHAT = { live: "all that is live", range: "all that is asked for in the range", never: "all that is never freed" };
  const MODES = ["site", "module", "phase", "library", "stream", "size", "age"];
  let mode = views.some((one) => one.modules) ? "module" : views.some((one) => one.texts.some((stack) => stack.length)) ? "site" : "size";
  let depth = 0, finds = null, dark = matchMedia("(prefers-color-scheme: dark)").matches;
  let pinned = null, pins = 0; // { view, id, part, b }; how often one was pinned or unpinned
  let cursor = view.peak, cursorTime = view.peakTime, queue = Promise.resolve();
  const colours = new Map();
  const colouringOf = (one) => {
    const key = `${one.number} ${mode} ${depth} ${byId("noise").checked}`;
    if (!colours.has(key)) colours.set(key, colouring(one, mode, depth));
    return colours.get(key);
  };

  // --- the window: seconds, or iterations where two runs are compared
  const steps = (one) => (both ? one.iterations : null);
  const unitOf = (one, time) => {
    const marks = steps(one);
    if (!marks) return time;
    let k = 0;
    while (k < marks.length - 2 && marks[k + 1] <= time) k++;
    return k + (time - marks[k]) / ((marks[k + 1] - marks[k]) || 1);
  };
  const timeOf = (one, unit) => {
    const marks = steps(one);
    if (!marks) return unit;
    const k = Math.min(Math.max(Math.floor(unit), 0), marks.length - 2);
    return Math.min(marks[k] + (unit - k) * (marks[k + 1] - marks[k]), one.seconds);
  };
  const limit = () => Math.max(...(both ? views : [view]).map((one) => unitOf(one, one.seconds)), 1e-9);
  const x = { start: 0, end: limit() }, y = { start: 0, end: Math.max(view.extent, 1) };
  const text = (value, pace) => (timeIs === "moment" ? "" : timeIs === "events" && !both ? ordinal(value) : both ? "iteration " + value.toFixed(pace < 1 ? 2 : 0)
    : pace >= 1 ? value.toFixed(0) + " s" : pace >= 1e-3 ? (value * 1e3).toFixed(pace >= 1 ? 0 : Math.max(0, -Math.floor(Math.log10(pace * 1e3)))) + " ms"
      : (value * 1e6).toFixed(Math.max(0, -Math.floor(Math.log10(pace * 1e6)))) + " \u00b5s");
  const shown = () => (both ? views : [view]);
  const canvasOf = (one) => byId(both ? "timeline-" + one.number : "timeline-0");

  const found = (one) => finds && ((blocks, b) => finds.bySort.get(one)[blocks.sort[b]] === 1 && (!finds.phase || finds.phase(one, blocks, b)));
  function draw() {
    const began = performance.now();
    for (const one of shown()) {
      const start = timeOf(one, x.start), end = timeOf(one, x.end), detail = one.ready(start, end);
      if (!detail && one.fits(start, end))
        queue = queue.then(() => one.window(timeOf(one, x.start), timeOf(one, x.end))).then((got) => got && redraw());
      const options = { dark, pinned: pinned?.view === one ? pinned.id : -1, finds: found(one), colours: colouringOf(one),
        cursor: one === view ? cursorTime : NaN, unit: text, axis: [x.start, x.end],
        at: (share) => timeOf(one, x.start + share * (x.end - x.start)), across: (time) => (unitOf(one, time) - x.start) / (x.end - x.start) };
      drawTimeline(canvasOf(one), one, detail, start, end, options);
      canvasOf(one).setAttribute("aria-label", `Memory over time${both ? " of " + one.label : ""}: from ${text(x.start, 1e-6)} to ` +
        `${text(x.end, 1e-6)} at most ${size(canvasOf(one).most / 1.04)}`);
      if (one === view) {
        drawMap(byId("map"), one, detail, start, end, { ...options, y: [y.start, y.end] });
        const exact = detail ? "every block" : `the ${one.overviewBlocks.n} largest blocks; zoom in for every one`;
        byId("exact").textContent = `Shown: ${exact}.`;
      }
    }
    cuplug.drawn = performance.now() - began;
    cuplug.draws = (cuplug.draws || 0) + 1;
  }
  let queued = false;
  const redraw = () => { if (!queued) { queued = true; requestAnimationFrame(() => { queued = false; draw(); }); } };

  // --- one event: what happened, what is there
  const describe = (one, part, b) => {
    const s = part.sort[b];
    return `${size(one.o.sort_requested[s])} (${one.o.sort_requested[s]} bytes requested, ${one.o.sort_nbytes[s]} set aside) at ` +
      `${one.addressOf(part.y[b])}, ${one.streamOf(s)}, ${one.libraryOf(s)}, ${one.siteOf(s)}`;
  };
  let asked = 0;
  async function show(event, keep) {
    const number = ++asked;
    cursor = Math.min(Math.max(Math.round(event), 0), Math.max(view.events - 1, 0));
    const { part, places } = await view.live(cursor);
    if (number !== asked) return; // another was asked for meanwhile
    const at = cursor - part.first;
    cursorTime = part.time[at] ?? 0;
    let what = "nothing of a block's";
    const other = part.other.get(cursor);
    if (other) what = `${other.kind.replace(/_/g, " ")}, ${size(other.nbytes || other.requested)} at 0x${BigInt(other.address).toString(16)}`;
    for (let b = 0; b < part.n; b++) {
      if (part.from[b] === cursor) what = "allocate " + describe(view, part, b);
      else if (part.freed[b] === cursor) what = "free " + describe(view, part, b);
      else if (part.until[b] === cursor) what = "its streams have passed: " + describe(view, part, b);
    }
    if (cursor < view.older) what += "; from before the recording began";
    byId("event").value = cursor;
    byId("event").max = view.events - 1;
    byId("event-text").textContent = `Event ${cursor} of ${view.events}, ${timeIs === "seconds" ? `at ${when(cursorTime)}` : "without a time"}: ${what}.`;
    const drawn = drawState(byId("state"), view, part, cursor, { dark, finds: found(view), colours: colouringOf(view), pinned: pinned?.view === view ? pinned.id : -1 });
    const figures = `${size(part.requested[at] || 0)} requested, ${size(part.allocated[at] || 0)} allocated, ${size(part.active[at] || 0)} active, ` +
      `${size(part.reserved[at] || 0)} reserved${drawn.onHost ? `, ${size(drawn.onHost)} of it on the host (hatched)` : ""}; ${places.length} live blocks in ${drawn.segments} segments.`;
    byId("state-text").textContent = figures;
    byId("state").setAttribute("aria-label", "The allocator's segments and blocks after this event: " + figures);
    await flameOf(part, places);
    if (number !== asked) return;
    blockTable(part, places);
    cuplug.live = { event: cursor, blocks: places.length, bytes: places.reduce((sum, b) => sum + view.o.sort_requested[part.sort[b]], 0) };
    if (!keep) {
      const unit = unitOf(view, cursorTime);
      if (unit < x.start || unit > x.end) { const half = (x.end - x.start) / 2; range(unit - half, unit + half); }
    }
    redraw();
  }

  // --- by call stack, as a flame view or as a tree: what is live, is asked for in the range shown, or is never freed
  let root = null, inverted = false, hide = false, zoomed = [], needle = "", flameWhat = "live", partly = "";
  // What the flame view is of: what is live at the event, is asked for in the range shown, or is never freed.
  async function flameOf(part, places) {
    partly = "";
    if (flameWhat === "never") {
      ({ part, places } = await view.live(Math.max(view.events - 1, 0)));
      places = places.filter((b) => part.freed[b] >= view.events);
    } else if (flameWhat === "range") {
      const start = timeOf(view, x.start), end = timeOf(view, x.end);
      part = view.ready(start, end) || (await view.window(start, end));
      if (!part) { part = view.overviewBlocks; partly = ` Of the ${part.n} largest blocks alone; zoom in for every one.`; }
      places = [];
      for (let b = 0; b < part.n; b++) if (part.begun[b] >= start && part.begun[b] <= end) places.push(b);
    }
    flame(part, places);
  }
  let stale = false;
  function reflame() { // after a change of the range; once for many
    if (flameWhat !== "range" || stale) return;
    stale = true;
    queue = queue.then(() => { stale = false; return show(cursor, true); });
  }
  function flame(part, places) {
    root = { name: "all", bytes: 0, blocks: 0, children: new Map() };
    for (const b of places) {
      const s = part.sort[b], bytes = view.o.sort_requested[s], full = view.stackOf(s);
      if (finds && !found(view)(part, b)) continue;
      let path = view.pathOf(s, !hide);
      if (inverted) path.reverse();
      if (!full.length && view.siteOf(s) === "no call stack") path = view.texts.some((stack) => stack.length) ? ["no call stack"]
        : [view.streamOf(s), "up to " + size(2 ** Math.ceil(Math.log2(Math.max(bytes, 512))))];
      let node = root;
      node.bytes += bytes; node.blocks++;
      for (const name of path) {
        if (!node.children.has(name)) node.children.set(name, { name, bytes: 0, blocks: 0, children: new Map() });
        node = node.children.get(name);
        node.bytes += bytes; node.blocks++;
      }
    }
    drawStacks();
  }
  const tree = callTree(byId("tree"), (name) => view.isProgram(name));
  function drawStacks() {
    const lines = byId("shape").value === "tree";
    byId("flame").hidden = lines;
    byId("tree").hidden = !lines;
    byId("flame-out").hidden = lines;
    if (!lines) return drawFlame();
    const { hits, count } = tree.draw(root, WHAT[flameWhat], needle);
    tellStacks(needle ? `; ${hits} of ${count} lines have "${needle}"` : "");
  }
  const tellStacks = (more) => {
    byId("flame-text").textContent = `${root.bytes} bytes (${size(root.bytes)}) in ${root.blocks} blocks${more}.${partly}`;
  };
  function drawFlame() {
    let top = root;
    const trail = [];
    for (const name of zoomed) { const next = top.children.get(name); if (!next) break; trail.push(name); top = next; }
    zoomed = trail;
    const box = byId("flame"), pieces = document.createDocumentFragment(), width = box.clientWidth || 1000;
    let deepest = 0, hits = 0, count = 0;
    const put = (node, left, share, level, path) => {
      if (share * width < 1.5) return;
      deepest = Math.max(deepest, level);
      count++;
      const bar = document.createElement("button"), name = node === root ? WHAT[flameWhat] : node.name;
      const hit = needle && name.toLowerCase().includes(needle);
      if (hit) hits++;
      bar.className = "frame" + (node === root || view.isProgram(name) ? "" : " library") + (needle ? (hit ? " hit" : " miss") : "");
      bar.style.left = `${left * 100}%`; bar.style.width = `${share * 100}%`; bar.style.top = `${level * 23}px`;
      bar.textContent = `${name} \u2013 ${size(node.bytes)}`;
      bar.title = `${name}\n${size(node.bytes)} (${node.bytes} bytes), ${((100 * node.bytes) / (root.bytes || 1)).toFixed(1)} % of ${WHAT[flameWhat]}, ${node.blocks} blocks`;
      bar.dataset.name = name; bar.dataset.bytes = node.bytes;
      bar.onclick = () => { zoomed = path; drawFlame(); byId("flame").querySelector(".frame:last-of-type")?.focus({ preventScroll: true }); };
      pieces.append(bar);
      if (level < trail.length && node !== top) {
        const next = node.children.get(path.length < trail.length ? trail[path.length] : "");
        if (next) put(next, 0, 1, level + 1, [...path, next.name]);
        return;
      }
      for (const child of [...node.children.values()].sort((p, q) => q.bytes - p.bytes)) {
        const part = node.bytes ? (share * child.bytes) / node.bytes : 0;
        put(child, left, part, level + 1, [...path, child.name]);
        left += part;
      }
    };
    put(root, 0, 1, 0, []);
    box.replaceChildren(pieces);
    box.style.height = `${(deepest + 1) * 23 + 2}px`;
    tellStacks((zoomed.length ? `; shown: ${zoomed[zoomed.length - 1]}, ${size(top.bytes)}` : "") + (needle ? `; ${hits} of ${count} bars have "${needle}"` : ""));
    byId("flame-out").disabled = !zoomed.length;
  }
  byId("flame-what").onchange = (event) => { flameWhat = event.target.value; zoomed = []; return show(cursor, true); };
  byId("flame-search").oninput = (event) => { needle = event.target.value.toLowerCase(); drawStacks(); };
  byId("shape").onchange = drawStacks;
  byId("flame-out").onclick = () => { zoomed = []; drawFlame(); };
  byId("inverted").onchange = (event) => { inverted = event.target.checked; zoomed = []; show(cursor, true); };
  byId("noise").onchange = (event) => { for (const one of views) one.showNoise(event.target.checked); zoomed = []; search(byId("search").value); setMode(mode); };
  byId("hide").onchange = (event) => { hide = event.target.checked; zoomed = []; show(cursor, true); };

  // --- the largest live blocks, as a table: for keyboards and screen readers
  function blockTable(part, places) {
    const ranked = [...places].filter((b) => !finds || found(view)(part, b))
      .sort((p, q) => view.o.sort_requested[part.sort[q]] - view.o.sort_requested[part.sort[p]]).slice(0, 20);
    byId("blocks").replaceChildren(...ranked.map((b) => {
      const row = document.createElement("tr"), s = part.sort[b], button = document.createElement("button");
      button.textContent = "Pin";
      button.setAttribute("aria-label", `Pin the block of ${size(view.o.sort_requested[s])} of ${view.siteOf(s)}`);
      button.onclick = () => pin(part, b);
      for (const cell of [view.siteOf(s), size(view.o.sort_requested[s]), view.addressOf(part.y[b]), String(part.from[b])]) {
        const made = document.createElement("td");
        made.textContent = cell;
        row.append(made);
      }
      const last = document.createElement("td");
      last.append(button);
      row.append(last);
      return row;
    }));
  }

  // --- a block under the pointer, and one that is pinned
  const place = (canvas, event) => {
    const box = canvas.getBoundingClientRect(), s = canvas.shown;
    return [(event.clientX - box.left) * s.ratio - s.left, (event.clientY - box.top) * s.ratio];
  };
  function under(one, canvas, event) {
    const blocks = one.ready(canvas.shown.start, canvas.shown.end) || one.overviewBlocks, [px, py] = place(canvas, event), s = canvas.shown;
    if (px < 0 || px >= s.w || py < 0 || py >= s.h) return null;
    if (s.columns) {
      const column = s.columns[Math.floor(px)] || [], row = s.h - 1 - Math.floor(py);
      for (let i = 0; i < column.length; i += 3) if (row >= column[i + 1] && row < column[i + 2]) return [blocks, column[i]];
      return null;
    }
    const time = s.at(px / s.w), at = s.y0 + (1 - py / s.h) * (s.y1 - s.y0);
    for (let b = blocks.n - 1; b >= 0; b--)
      if (at >= blocks.y[b] && at < blocks.y[b] + one.o.sort_nbytes[blocks.sort[b]] && time >= blocks.begun[b] && time < blocks.reusable[b]) return [blocks, b];
    return null;
  }
  function tip(one, hit, event) {
    const box = byId("tip");
    if (!hit) { box.style.display = "none"; return; }
    const [blocks, b] = hit, s = blocks.sort[b];
    box.replaceChildren();
    const line = (words, name) => { const made = document.createElement("div"); made.textContent = words; if (name) made.className = name; box.append(made); };
    line(`${size(one.o.sort_requested[s])} (${one.o.sort_requested[s]} bytes requested, ${one.o.sort_nbytes[s]} set aside)`, "strong");
    line(`address ${one.addressOf(blocks.y[b])}, ${one.streamOf(s)}, ${one.libraryOf(s)}, ${one.phaseOf(s, blocks.begun[b])}`);
    const never = blocks.freed ? blocks.freed[b] >= one.events : blocks.gone[b] >= one.seconds;
    const about = blocks.freed?.[b] >= blocks.first + blocks.events ? "about " : ""; // it ends outside of what is loaded
    line(`lifetime ${never ? "until the end: never freed" : about + duration(blocks.gone[b] - blocks.begun[b])}, from ${when(blocks.begun[b])}`);
    for (const frame of one.stackOf(s)) line(frame, "stack");
    if (!one.stackOf(s).length) line("no call stack", "soft");
    box.style.display = "block";
    const right = event.clientX + box.offsetWidth + 24 > innerWidth, low = event.clientY + box.offsetHeight + 24 > innerHeight;
    box.style.left = Math.max(right ? event.clientX - box.offsetWidth - 14 : event.clientX + 14, 4) + "px";
    box.style.top = Math.max(low ? event.clientY - box.offsetHeight - 14 : event.clientY + 14, 4) + "px";
  }
  async function pin(blocks, b) {
    const s = blocks.sort[b], of = view, freed = blocks.freed?.[b], number = ++pins;
    const gone = freed === undefined ? blocks.gone[b] : await of.timeOf(freed);
    if (of !== view || number !== pins) return; // another was pinned meanwhile, or none is to be
    pinned = { view, id: blocks.id[b], sort: s, begun: blocks.begun[b], gone, from: blocks.from?.[b], freed };
    byId("pinned").hidden = false;
    byId("pinned-text").textContent = `${size(view.o.sort_requested[s])} (${view.o.sort_requested[s]} bytes requested, ${view.o.sort_nbytes[s]} set aside) at ` +
      `${view.addressOf(blocks.y[b])}, ${view.streamOf(s)}, ${view.libraryOf(s)}, ${view.phaseOf(s, blocks.begun[b])}; from ${when(pinned.begun)} to ${when(gone)}.`;
    byId("pinned-stack").textContent = view.stackOf(s).join("\n") || "no call stack";
    byId("copied").textContent = "";
    byId("pinned").focus();
    show(cursor, true);
  }
  byId("unpin").onclick = () => { pins++; pinned = null; byId("pinned").hidden = true; show(cursor, true); };
  byId("copy").onclick = async () => {
    const words = byId("pinned-stack").textContent;
    let done = false;
    try { await navigator.clipboard.writeText(words); done = true; } catch (error) {
      const range = document.createRange();
      range.selectNodeContents(byId("pinned-stack"));
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      done = document.execCommand("copy");
    }
    cuplug.copied = done ? words : "";
    byId("copied").textContent = done ? "Copied." : "The browser does not allow it: the stack is selected, copy it yourself.";
  };
  byId("to-allocation").onclick = async () => show(pinned.from ?? (await view.eventAt(pinned.begun)));
  byId("to-free").onclick = async () => show(pinned.freed ?? (await view.eventAt(pinned.gone)));

  // --- search
  function search(words) {
    const tests = [], wrong = [];
    let phase = null;
    for (const word of words.match(/"[^"]*"|\S+/g) || []) {
      const [, name, sign, rest] = /^(?:(size|site|module|stream|library|rank|phase)(:|>=|<=|>|<))?(.*)$/s.exec(word.replace(/"/g, ""));
      const value = rest.toLowerCase();
      if (name === "size") {
        const number = /^([\d.]+)\s*([kmgt]?)(?:i?b)?$/.exec(value);
        if (!number) { wrong.push(word); continue; }
        const bytes = Number(number[1]) * 1024 ** " kmgt".indexOf(number[2] || " ");
        const compare = { ">=": (v) => v >= bytes, "<=": (v) => v <= bytes, ">": (v) => v > bytes, "<": (v) => v < bytes, ":": (v) => v === bytes }[sign];
        tests.push((one, s) => compare(one.o.sort_requested[s]));
      } else if (name === "phase") phase = (one, blocks, b) => one.phaseOf(blocks.sort[b], blocks.begun[b]).toLowerCase().includes(value);
      else {
        const get = { site: (one, s) => one.siteOf(s), module: (one, s) => one.moduleOf(s), stream: (one, s) => one.streamOf(s),
          library: (one, s) => one.libraryOf(s), rank: (one) => one.label,
          undefined: (one, s) => `${one.stackOf(s).join("\n")}\n${one.libraryOf(s)}\n${one.streamOf(s)}\n${one.label}` }[name];
        tests.push((one, s) => get(one, s).toLowerCase().includes(value));
      }
    }
    finds = tests.length || phase ? { phase, bySort: new Map(views.map((one) => [one, Uint8Array.from({ length: one.sorts }, (_, s) => (tests.every((test) => test(one, s)) ? 1 : 0))])) } : null;
    let told = "";
    if (finds) {
      let blocks = 0, bytes = 0;
      const mine = finds.bySort.get(view);
      for (let s = 0; s < view.sorts; s++) if (mine[s]) { blocks += view.o.sort_blocks[s]; bytes += view.o.sort_at_peak[s] * view.o.sort_requested[s]; }
      told = `${blocks} of ${view.blocks} blocks${phase ? " (of every phase)" : ""}; ${size(bytes)} of what is held at the peak.`;
    }
    byId("found").textContent = (wrong.length ? `Not understood: ${wrong.join(" ")}. ` : "") + told;
    byId("search").setAttribute("aria-invalid", String(wrong.length > 0));
    show(cursor, true);
  }
  byId("search").oninput = (event) => search(event.target.value);

  // --- moving about
  function range(start, end) {
    const most = limit(), span = Math.min(Math.max(end - start, most * 1e-7), most);
    start = Math.min(Math.max(start, 0), most - span);
    x.start = start; x.end = start + span;
    reflame();
    redraw();
  }
  const zoom = (factor, at = (x.start + x.end) / 2) => range(at - (at - x.start) * factor, at + (x.end - at) * factor);
  const pan = (share) => range(x.start + (x.end - x.start) * share, x.end + (x.end - x.start) * share);
  function rise(share, factor = 1) {
    const all = Math.max(view.extent, 1), span = Math.min((y.end - y.start) * factor, all);
    const start = Math.min(Math.max(y.start + (y.end - y.start) * share, 0), all - span);
    y.start = start; y.end = start + span;
    redraw();
  }
  const all = () => { y.start = 0; y.end = Math.max(view.extent, 1); range(0, limit()); };
  const toPeak = async () => {
    const at = unitOf(view, view.peakTime), most = limit();
    range(at - most / 40, at + most / 40);
    await show(view.peak, true);
  };
  function setMode(next) {
    mode = next;
    byId("colour").value = mode;
    byId("depth-label").hidden = mode !== "site";
    byId("legend").replaceChildren(...colouringOf(view).keys.map(([hex, name]) => {
      const key = document.createElement("span"), patch = document.createElement("i");
      key.className = "key";
      patch.style.background = hex;
      key.append(patch, name);
      return key;
    }));
    show(cursor, true);
  }
  function theme(next) {
    dark = next;
    document.documentElement.classList.toggle("dark", dark);
    document.documentElement.classList.toggle("light", !dark);
    show(cursor, true);
  }
  async function choose(number) {
    view = views[number];
    if (!both) { x.start = 0; x.end = limit(); }
    y.start = 0; y.end = Math.max(view.extent, 1);
    document.querySelectorAll("[data-view]").forEach((part) => { part.hidden = !both && Number(part.dataset.view) !== number; });
    if (byId("view")) byId("view").value = String(number);
    zoomed = [];
    setMode(mode);
    await show(view.peak, true);
  }

  byId("to-peak").onclick = toPeak;
  byId("to-all").onclick = all;
  byId("zoom-in").onclick = () => zoom(0.5);
  byId("zoom-out").onclick = () => zoom(2);
  byId("left").onclick = () => pan(-0.25);
  byId("right").onclick = () => pan(0.25);
  byId("previous").onclick = () => show(cursor - 1);
  byId("next").onclick = () => show(cursor + 1);
  byId("event").onchange = (event) => show(Number(event.target.value) || 0);
  byId("colour").onchange = (event) => setMode(event.target.value);
  byId("depth").oninput = (event) => { depth = Math.max(Math.floor(Number(event.target.value)) || 0, 0); setMode("site"); };
  byId("theme").onclick = () => theme(!dark);
  if (byId("view")) byId("view").onchange = (event) => choose(Number(event.target.value));
  const keys = {
    ArrowLeft: () => pan(-0.2), ArrowRight: () => pan(0.2), "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), 0: all, p: toPeak,
    ",": () => show(cursor - 1), ".": () => show(cursor + 1), "<": () => show(cursor - 100), ">": () => show(cursor + 100),
    t: () => { byId("shape").value = byId("shape").value === "tree" ? "flame" : "tree"; drawStacks(); },
    d: () => theme(!dark), c: () => setMode(MODES[(MODES.indexOf(mode) + 1) % MODES.length]), "/": () => byId("search").focus(),
    ArrowUp: (event) => event.shiftKey && rise(0.2), ArrowDown: (event) => event.shiftKey && rise(-0.2), Escape: () => byId("unpin").onclick(),
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || /^(SELECT|INPUT|TEXTAREA)$/.test(event.target.tagName)) return;
    const action = keys[event.key];
    if (action && action(event) !== false) event.preventDefault();
  });
  const pointed = (one, canvas) => {
    let held = null;
    canvas.onpointerdown = (event) => { held = { x: event.clientX, y: event.clientY, start: x.start, end: x.end, low: y.start, high: y.end, moved: false }; canvas.setPointerCapture(event.pointerId); };
    canvas.onpointermove = (event) => {
      const owner = one || view;
      if (!held) return tip(owner, under(owner, canvas, event), event);
      const across = event.clientX - held.x, up = event.clientY - held.y;
      held.moved ||= Math.abs(across) + Math.abs(up) > 4;
      if (!held.moved) return;
      byId("tip").style.display = "none";
      const share = (-across * canvas.shown.ratio) / canvas.shown.w;
      if (canvas.id === "map") { const span = held.high - held.low; y.start = held.low; y.end = held.high; rise(Math.min(Math.max((up * canvas.shown.ratio) / canvas.shown.h, -held.low / span), 1)); }
      range(held.start + share * (held.end - held.start), held.end + share * (held.end - held.start));
    };
    canvas.onpointerup = async (event) => {
      const moved = held?.moved;
      held = null;
      if (moved) return;
      const owner = one || view, hit = under(owner, canvas, event), [px] = place(canvas, event), s = canvas.shown;
      if (owner !== view) await choose(owner.number);
      if (hit) pin(...hit);
      await show(await view.eventAt(s.at(px / s.w)), true);
    };
    canvas.onpointerleave = () => { byId("tip").style.display = "none"; };
    canvas.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.shiftKey && canvas !== document.activeElement) return; // the page scrolls
      event.preventDefault();
      if (event.shiftKey && canvas.id === "map") return rise(0, event.deltaY > 0 ? 1.25 : 0.8);
      const [px] = place(canvas, event), s = canvas.shown;
      zoom((event.deltaY || event.deltaX) > 0 ? 1.25 : 0.8, x.start + (px / s.w) * (x.end - x.start));
    }, { passive: false });
  };
  for (const one of both ? views : [view]) pointed(both ? one : null, canvasOf(one));
  pointed(null, byId("map"));
  const state = byId("state");
  state.onclick = async (event) => {
    const box = state.getBoundingClientRect(), ratio = state.width / box.width;
    const px = (event.clientX - box.left) * ratio, py = (event.clientY - box.top) * ratio;
    const hit = (state.boxes || []).find(([left, top, width, high]) => px >= left && px <= left + width && py >= top && py <= top + high);
    if (hit) pin((await view.live(cursor)).part, hit[4]);
  };
  new ResizeObserver(() => { redraw(); if (root) show(cursor, true); }).observe(document.querySelector("main"));

  Object.assign(cuplug, { views, view: () => view, x, y, show, pin, range, mode: () => mode, pinned: () => pinned, root: () => root, zoomed: () => zoomed,
    finds: () => finds, idle: async () => { for (let before = null; before !== queue;) { before = queue; await queue; } } });
  document.documentElement.classList.toggle("dark", dark);
  document.documentElement.classList.toggle("light", !dark);
  await choose(0);
  draw();
  cuplug.ready = true;
})().catch((error) => {
  cuplug.error = String((error && error.stack) || error);
  const told = document.createElement("p");
  told.textContent = "The charts cannot be drawn: " + cuplug.error;
  document.getElementById("first-0").append(told);
});
