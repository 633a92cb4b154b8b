// Draws a window of a view at the screen's resolution: the stack of live blocks, the address map, one moment's segments.
"use strict";
const CATEGORIES = ["#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#ee8866", "#44bb99", "#bbcc33", "#99ddff"];
const SCALE = ["#440154", "#482878", "#3e4a89", "#31688e", "#26838e", "#1f9e89", "#35b779", "#6cce59", "#b5de2c", "#fde725"];
const OTHER = "#8a93a0";
const rgba = (hex) => {
  const n = parseInt(hex.slice(1), 16);
  return (0xff000000 | ((n & 0xff) << 16) | (n & 0xff00) | (n >> 16)) >>> 0;
};
const dim = (code, dark) => { // what a search does not find
  const mix = (shift) => { const v = (code >>> shift) & 255, to = dark ? 40 : 236; return ((v + 5 * to) / 6) & 255; };
  return (0xff000000 | (mix(16) << 16) | (mix(8) << 8) | mix(0)) >>> 0;
};
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// The colours of a view's blocks: { of(blocks, b), keys: [[colour, name]] }.
function colouring(view, mode, depth) {
  const o = view.o, keys = [];
  if (mode === "size" || mode === "age") {
    const codes = SCALE.map(rgba);
    let least = Infinity, most = -Infinity;
    if (mode === "size") for (let s = 0; s < view.sorts; s++) {
      const v = Math.log2(o.sort_requested[s] + 1);
      if (v < least) least = v;
      if (v > most) most = v;
    } else [least, most] = [-6, Math.log10(Math.max(view.seconds, 1e-5))];
    const span = most - least || 1;
    const code = (v) => codes[Math.min(Math.max(Math.floor(((v - least) / span) * SCALE.length), 0), SCALE.length - 1)];
    if (view.sorts) SCALE.forEach((hex, i) => {
      const v = least + (span * i) / SCALE.length;
      keys.push([hex, "from " + (mode === "size" ? size(Math.max(2 ** v - 1, 0)) : duration(10 ** v))]);
    });
    if (mode === "age") return { keys, of: (blocks, b) => code(Math.log10(Math.max(blocks.gone[b] - blocks.begun[b], 1e-9))) };
    const bySort = Uint32Array.from({ length: view.sorts }, (_, s) => code(Math.log2(o.sort_requested[s] + 1)));
    return { keys, of: (blocks, b) => bySort[blocks.sort[b]] };
  }
  const timed = mode === "phase" && view.markers.length > 0 && !view.modules;
  const name = { site: (s) => view.siteAt(s, depth), module: (s) => view.moduleOf(s), library: (s) => view.libraryOf(s),
    stream: (s) => view.streamOf(s), phase: (s) => view.phaseOf(s, 0) }[mode];
  const held = new Map();
  if (timed) for (const marker of view.markers) { const key = view.phaseOf(0, marker[1]); held.set(key, (held.get(key) || 0) + 1); }
  else for (let s = 0; s < view.sorts; s++)
    held.set(name(s), (held.get(name(s)) || 0) + o.sort_requested[s] * (o.sort_at_peak[s] * 1e6 + o.sort_blocks[s]));
  const ranked = [...held.keys()].sort((p, q) => held.get(q) - held.get(p)), code = new Map();
  ranked.forEach((key, i) => code.set(key, rgba(CATEGORIES[i] || OTHER)));
  ranked.slice(0, CATEGORIES.length).forEach((key, i) => keys.push([CATEGORIES[i], key]));
  if (ranked.length > CATEGORIES.length) keys.push([OTHER, "others"]);
  if (timed) return { keys, of: (blocks, b) => code.get(view.phaseOf(0, blocks.begun[b])) ?? rgba(OTHER) };
  const bySort = Uint32Array.from({ length: view.sorts }, (_, s) => code.get(name(s)));
  return { keys, of: (blocks, b) => bySort[blocks.sort[b]] };
}

function prepared(canvas) {
  const ratio = window.devicePixelRatio || 1, box = canvas.getBoundingClientRect();
  const W = Math.max(Math.round(box.width * ratio), 50), H = Math.max(Math.round(box.height * ratio), 20);
  if (canvas.width !== W || canvas.height !== H) { canvas.width = W; canvas.height = H; }
  return { context: canvas.getContext("2d"), W, H, ratio };
}

const LEFT = 66, BELOW = 20; // room for the axes, in CSS pixels

// The least and most of curves in each column of pixels: from every event, or from the overview's bins.
function columnsOf(view, detail, at, W, name) {
  const least = new Float64Array(W), most = new Float64Array(W), start = at(0);
  if (detail) {
    const time = detail.time, curve = detail[name];
    let i = 0, high = time.length;
    while (i < high) { const mid = (i + high) >> 1; if (time[mid] <= start) i = mid + 1; else high = mid; }
    let value = i ? curve[i - 1] : (detail.low ? curve[0] : 0);
    for (let x = 0; x < W; x++) {
      const until = at((x + 1) / W);
      let low = value, top = value;
      for (; i < time.length && time[i] <= until; i++) { value = curve[i]; if (value < low) low = value; if (value > top) top = value; }
      least[x] = low; most[x] = top;
    }
  } else {
    const lows = view.o[name + "_least"], tops = view.o[name + "_most"], perBin = view.seconds / view.bins || 1e-12;
    for (let x = 0; x < W; x++) {
      const a = Math.min(Math.max(Math.floor(at(x / W) / perBin), 0), view.bins - 1);
      const z = Math.min(Math.max(Math.floor(at((x + 1) / W) / perBin), a), view.bins - 1);
      let low = Infinity, top = -Infinity;
      for (let k = a; k <= z; k++) { if (lows[k] < low) low = lows[k]; if (tops[k] > top) top = tops[k]; }
      least[x] = low; most[x] = top;
    }
  }
  return { least, most };
}

function axes(g, W, H, ratio, most, start, end, unit) {
  g.fillStyle = css("--soft"); g.strokeStyle = css("--line"); g.lineWidth = 1;
  g.font = `${12 * ratio}px system-ui, sans-serif`;
  const left = LEFT * ratio, below = BELOW * ratio, plot = H - below;
  g.textAlign = "right"; g.textBaseline = "middle";
  const step = 2 ** Math.ceil(Math.log2(Math.max(most / 5, 1)));
  for (let v = 0; v <= most; v += step) {
    const y = plot - (v / most) * plot;
    g.globalAlpha = 0.5; g.beginPath(); g.moveTo(left, y); g.lineTo(W, y); g.stroke(); g.globalAlpha = 1;
    g.fillText(size(v), left - 5 * ratio, Math.min(Math.max(y, 7 * ratio), plot));
  }
  g.textAlign = "center"; g.textBaseline = "alphabetic";
  const wide = (W - left) / ratio, raw = ((end - start) / Math.max(wide / 110, 1)) || 1e-9;
  const power = 10 ** Math.floor(Math.log10(raw)), pace = [1, 2, 5, 10].map((k) => k * power).find((k) => k >= raw);
  for (let t = Math.ceil(start / pace) * pace; t <= end; t += pace) {
    const x = left + ((t - start) / (end - start)) * (W - left);
    if (x > W - 30 * ratio || x < left + 20 * ratio) continue;
    g.fillText(unit(t, pace), x, H - 5 * ratio);
  }
}

// One band for each large block, in the order of their allocation; below them, those thinner than a pixel together, by colour.
function drawTimeline(canvas, view, detail, start, end, options) {
  const { context: g, W, H, ratio } = prepared(canvas), left = Math.round(LEFT * ratio), below = Math.round(BELOW * ratio);
  const w = W - left, h = H - below;
  g.clearRect(0, 0, W, H);
  const requested = columnsOf(view, detail, options.at, w, "requested");
  const reserved = columnsOf(view, detail, options.at, w, "reserved");
  let most = 1;
  for (let x = 0; x < w; x++) most = Math.max(most, reserved.most[x], requested.most[x]);
  const inView = view.failures.filter((failure) => failure.seconds >= start && failure.seconds <= end);
  for (const failure of inView) most = Math.max(most, Math.min(failure.wanted, 4 * most), failure.all || 0);
  most *= 1.04;
  const blocks = detail || view.overviewBlocks, o = view.o;
  const pixels = new Uint32Array(w * h), base = rgba(options.dark ? "#4b5563" : "#b6bec9"), shown = (canvas.shown = { left, w, h, ratio, most, start, end, at: options.at, columns: null });
  const threshold = most / h, finds = options.finds, perPixel = h / most, across = options.across;
  const large = [], thin = new Map(); // by colour: how the bytes of blocks thinner than a pixel change from column to column
  const column = (time) => Math.min(Math.max(Math.ceil(across(time) * w - 0.5), 0), w);
  for (let b = 0; b < blocks.n; b++) {
    if (blocks.begun[b] > end || blocks.gone[b] < start) continue;
    const bytes = o.sort_requested[blocks.sort[b]];
    if (bytes >= threshold) { large.push(b); continue; }
    let code = options.colours.of(blocks, b);
    if (finds && !finds(blocks, b)) code = dim(code, options.dark);
    if (!thin.has(code)) thin.set(code, new Float64Array(w + 1));
    const changes = thin.get(code);
    changes[column(blocks.begun[b])] += bytes;
    changes[column(blocks.gone[b])] -= bytes;
  }
  const held = new Map([...thin.keys()].map((code) => [code, 0]));
  if (!detail) large.sort((p, q) => blocks.begun[p] - blocks.begun[q]);
  const placed = (shown.columns = new Array(w));
  let live = [], next = 0;
  for (let x = 0; x < w; x++) {
    const time = options.at((x + 0.5) / w);
    while (next < large.length && blocks.begun[large[next]] <= time) live.push(large[next++]);
    live = live.filter((b) => blocks.gone[b] > time);
    let sum = 0;
    for (const b of live) sum += o.sort_requested[blocks.sort[b]];
    let at = Math.max((detail ? requested.most[x] : Math.min(requested.most[x], Math.max(requested.least[x], sum))) - sum, 0);
    const low = Math.min(Math.round(at * perPixel), h);
    const small = finds ? dim(base, options.dark) : base;
    let row = 0, upTo = 0;
    for (const [code, changes] of thin) { // together, each pixel in the colour of what most of its bytes are
      held.set(code, held.get(code) + changes[x]);
      upTo += held.get(code);
      for (const edge = Math.min(Math.round(upTo * perPixel), low); row < edge; row++) pixels[(h - 1 - row) * w + x] = code;
    }
    for (; row < low; row++) pixels[(h - 1 - row) * w + x] = small;
    const placedHere = (placed[x] = []);
    for (const b of live) {
      const from = Math.min(Math.round(at * perPixel), h);
      at += o.sort_requested[blocks.sort[b]];
      const to = Math.min(Math.round(at * perPixel), h);
      if (to <= from) continue;
      let code = options.colours.of(blocks, b);
      if (finds && !finds(blocks, b)) code = dim(code, options.dark);
      if (blocks.id[b] === options.pinned) code = 0xff2222cc;
      for (let r = from; r < to; r++) pixels[(h - 1 - r) * w + x] = r === to - 1 && to - from > 3 ? dim(code, options.dark) : code;
      placedHere.push(b, from, to);
    }
  }
  g.putImageData(new ImageData(new Uint8ClampedArray(pixels.buffer), w, h), left, 0);
  for (const [curve, colour, width] of [[reserved, css("--reserved"), 2], [requested, css("--requested"), 1]]) {
    g.strokeStyle = colour; g.lineWidth = width * ratio; g.beginPath();
    for (let x = 0; x < w; x++) {
      const top = h - curve.most[x] * perPixel, low = h - curve.least[x] * perPixel;
      if (!x) g.moveTo(left, top);
      g.lineTo(left + x + 0.5, top);
      if (low - top > 1) g.lineTo(left + x + 0.5, low), g.moveTo(left + x + 0.5, top);
    }
    g.stroke();
  }
  for (const failure of inView) {
    const x = left + across(failure.seconds) * w;
    g.fillStyle = css("--bad"); g.font = `bold ${13 * ratio}px system-ui`; g.textBaseline = "top";
    g.textAlign = x > W / 2 ? "right" : "left";
    if (failure === inView[0]) g.fillText(`out of memory: ${size(failure.requested)} more`, x + (x > W / 2 ? -12 : 12) * ratio, 6 * ratio);
    g.textAlign = "center"; g.textBaseline = "middle";
    g.fillText("\u2715", x, Math.max(h - failure.wanted * perPixel, 8 * ratio)); // what the program would have held
    if (failure.all !== null && failure === inView[0]) { // all that there was for it
      g.strokeStyle = css("--bad"); g.lineWidth = 1.5 * ratio; g.setLineDash([2 * ratio, 4 * ratio]);
      g.beginPath(); g.moveTo(left, h - failure.all * perPixel); g.lineTo(W, h - failure.all * perPixel); g.stroke(); g.setLineDash([]);
    }
  }
  axes(g, W, H, ratio, most, ...options.axis, options.unit);
  mark(g, across(options.cursor), left, w, h);
  canvas.most = most;
}

function mark(g, share, left, w, h) {
  if (!(share >= 0 && share <= 1)) return;
  const x = left + share * w;
  g.strokeStyle = css("--text"); g.setLineDash([4, 3]); g.lineWidth = 1;
  g.beginPath(); g.moveTo(x, 0); g.lineTo(x, h); g.stroke(); g.setLineDash([]);
}

// Addresses upwards, time to the right: a rectangle for each block until its memory can be used again.
function drawMap(canvas, view, detail, start, end, options) {
  const { context: g, W, H, ratio } = prepared(canvas), left = Math.round(LEFT * ratio), below = Math.round(BELOW * ratio);
  const w = W - left, h = H - below, [y0, y1] = options.y;
  g.clearRect(0, 0, W, H);
  const pixels = new Uint32Array(w * h), across = options.across, dy = (y1 - y0 || 1) / h;
  const paint = (t0, t1, low, high, code) => {
    if (t1 < start || t0 > end || high < y0 || low > y1) return;
    const c0 = Math.max(Math.floor(across(t0) * w), 0), c1 = Math.min(Math.max(Math.floor(across(t1) * w), c0 + 1), w);
    const r0 = Math.max(Math.floor((low - y0) / dy), 0), r1 = Math.min(Math.max(Math.floor((high - y0) / dy), r0 + 1), h);
    for (let r = r0; r < r1; r++) pixels.fill(code, (h - 1 - r) * w + c0, (h - 1 - r) * w + c1);
  };
  const o = view.o, behind = rgba(options.dark ? "#39424f" : "#d4d9e0");
  for (let s = 0; s < o.segment_y.length; s++)
    paint(o.segment_begun[s], o.segment_gone[s], o.segment_y[s], o.segment_y[s] + o.segment_nbytes[s], behind);
  const blocks = detail || view.overviewBlocks;
  for (let b = 0; b < blocks.n; b++) {
    if (blocks.begun[b] > end || blocks.reusable[b] < start) continue;
    let code = options.colours.of(blocks, b);
    if (options.finds && !options.finds(blocks, b)) code = dim(code, options.dark);
    if (blocks.id[b] === options.pinned) code = 0xff2222cc;
    paint(blocks.begun[b], blocks.reusable[b], blocks.y[b], blocks.y[b] + o.sort_nbytes[blocks.sort[b]], code);
  }
  const hatch = (t0, t1, low, high) => { // memory of the host: every eighth diagonal is darker
    if (t1 < start || t0 > end || high < y0 || low > y1) return;
    const c0 = Math.max(Math.floor(across(t0) * w), 0), c1 = Math.min(Math.max(Math.floor(across(t1) * w), c0 + 1), w);
    const r0 = Math.max(Math.floor((low - y0) / dy), 0), r1 = Math.min(Math.max(Math.floor((high - y0) / dy), r0 + 1), h);
    const step = Math.round(8 * ratio);
    for (let r = r0; r < r1; r++)
      for (let c = c0; c < c1; c++)
        if ((r + c) % step < ratio) pixels[(h - 1 - r) * w + c] = dim(pixels[(h - 1 - r) * w + c], !options.dark);
  };
  for (let s = 0; s < o.segment_y.length; s++)
    if (o.segment_kind[s] === 2) hatch(o.segment_begun[s], o.segment_gone[s], o.segment_y[s], o.segment_y[s] + o.segment_nbytes[s]);
  g.putImageData(new ImageData(new Uint8ClampedArray(pixels.buffer), w, h), left, 0);
  canvas.shown = { left, w, h, ratio, start, end, y0, y1, at: options.at };
  axes(g, W, H, ratio, y1 - y0, ...options.axis, options.unit);
  mark(g, across(options.cursor), left, w, h);
}

// The segments at one moment, one behind the other, and the blocks in them.
function drawState(canvas, view, part, event, options) {
  const o = view.o, held = [];
  let total = 0;
  for (let s = 0; s < o.segment_y.length; s++) if (o.segment_from[s] <= event && o.segment_until[s] > event) held.push(s);
  held.sort((p, q) => o.segment_y[p] - o.segment_y[q]);
  const live = [];
  for (let b = 0; b < part.n; b++) if (part.from[b] <= event && part.until[b] > event) live.push(b);
  live.sort((p, q) => part.y[p] - part.y[q]);
  const pieces = []; // segments, and rows of pages of one kind, in which a block may lie in several
  for (const s of held) {
    const kind = o.segment_kind[s], last = pieces[pieces.length - 1];
    if (last && kind && last[2] === kind && last[0] + last[1] === o.segment_y[s]) last[1] += o.segment_nbytes[s];
    else pieces.push([o.segment_y[s], o.segment_nbytes[s], kind]);
  }
  const segments = pieces.length;
  if (!pieces.length) for (const b of live) pieces.push([part.y[b], o.sort_nbytes[part.sort[b]]]); // a history without segments
  for (const piece of pieces) total += piece[1];
  const { context: g, W, H, ratio } = prepared(canvas), high = 24 * ratio, rows = Math.max(Math.floor(H / high), 1);
  g.clearRect(0, 0, W, H);
  const gap = 3 * ratio, room = rows * W - gap * (pieces.length + rows), scale = Math.max(room, W / 2) / (total || 1);
  const boxes = [];
  const hatch = (x, y, width, height) => {
    g.save(); g.beginPath(); g.rect(x, y, width, height); g.clip(); g.beginPath();
    for (let k = Math.floor((x - height) / (7 * ratio)) * 7 * ratio; k < x + width; k += 7 * ratio) { g.moveTo(k, y + height); g.lineTo(k + height, y); }
    g.strokeStyle = options.dark ? "#e4e9f0" : "#1b2430"; g.lineWidth = ratio; g.stroke(); g.restore();
  };
  const strip = (at, length, colour, b) => { // a stretch of the long row, cut at the ends of the rows; without a colour hatched
    while (length > 0) {
      const row = Math.floor(at / W), x = at - row * W, part = Math.min(length, W - x);
      if (!colour) hatch(x, row * high + 2, Math.max(part, 0.6), high - 5 * ratio);
      else { g.fillStyle = colour; g.fillRect(x, row * high + 2, Math.max(part, 0.6), high - 5 * ratio); }
      if (b !== undefined) boxes.push([x, row * high, part, high, b]);
      at += part; length -= part;
      if (part <= 0) break;
    }
  };
  let at = 0, k = 0, onHost = 0;
  const behind = options.dark ? "#39424f" : "#d4d9e0", hex = (code) => "#" + (0x1000000 + ((code & 255) << 16) + (code & 0xff00) + ((code >>> 16) & 255)).toString(16).slice(1);
  for (const [y, nbytes, kind] of pieces) {
    strip(at, nbytes * scale, behind);
    while (k < live.length && part.y[live[k]] < y) k++;
    for (; k < live.length && part.y[live[k]] < y + nbytes; k++) {
      const b = live[k], blocks = part;
      let code = options.colours.of(blocks, b);
      if (options.finds && !options.finds(blocks, b)) code = dim(code, options.dark);
      if (part.id[b] === options.pinned) code = 0xff2222cc;
      strip(at + (part.y[b] - y) * scale, Math.max(o.sort_nbytes[part.sort[b]] * scale - 0.5, 0.5), part.freed[b] <= event ? "#c9a227" : hex(code), b);
    }
    if (kind === 2) { strip(at, nbytes * scale); onHost += nbytes; }
    at += nbytes * scale + gap;
  }
  canvas.boxes = boxes;
  return { segments, live: live.length, onHost };
}
