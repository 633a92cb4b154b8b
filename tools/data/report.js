// The report's page: unpacks the columns, and draws what the visible window shows, at the screen's resolution.
"use strict";
const cuplug = (window.cuplug = { ready: false });
(async () => {
  const byId = (id) => document.getElementById(id);
  const meta = JSON.parse(byId("meta").textContent);
  const MODES = ["size", "stream", "age", "site"];
  const CATEGORIES = ["#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#ee8866", "#44bb99", "#bbcc33",
    "#99ddff"];
  const SCALE = ["#440154", "#482878", "#3e4a89", "#31688e", "#26838e", "#1f9e89", "#35b779", "#6cce59", "#b5de2c",
    "#fde725"];
  const OTHER = "#8a93a0";

  const size = (bytes) => {
    for (const [unit, name] of [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]])
      if (Math.abs(bytes) >= unit) return (bytes / unit).toFixed(2) + " " + name;
    return bytes.toFixed(0) + " B";
  };
  const duration = (seconds) =>
    seconds >= 1 ? seconds.toFixed(3) + " s" : seconds >= 1e-3 ? (seconds * 1e3).toFixed(3) + " ms"
      : (seconds * 1e6).toFixed(1) + " µs";
  const escaped = (text) => text.replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);
  const rgba = (hex) => {
    const n = parseInt(hex.slice(1), 16);
    return (0xff000000 | ((n & 0xff) << 16) | (n & 0xff00) | (n >> 16)) >>> 0;
  };

  // --- the columns
  const text = atob(byId("data").textContent.trim());
  byId("data").remove();
  const packed = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) packed[i] = text.charCodeAt(i);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const raw = await new Response(stream).arrayBuffer();
  const TYPES = { f8: Float64Array, u4: Uint32Array };
  const d = {};
  let at = 0;
  for (const [name, type, length] of meta.columns) {
    const bytes = length * TYPES[type].BYTES_PER_ELEMENT;
    d[name] = new TYPES[type](raw.slice(at, at + bytes));
    at += bytes;
  }
  const N = d.time.length, B = d.from.length, S = d.segment_from.length;
  const end = N ? d.time[N - 1] : 0;
  const timeOf = (event) => (event < N ? d.time[event] : end);
  const begins = new Float64Array(B), ends = new Float64Array(B);
  for (let b = 0; b < B; b++) { begins[b] = timeOf(d.from[b]); ends[b] = timeOf(d.until[b]); }

  const curve = (amount, off) => {
    const sum = new Float64Array(N + 1);
    for (let b = 0; b < B; b++) { sum[d.from[b]] += amount[b]; sum[off[b]] -= amount[b]; }
    for (let i = 1; i < N; i++) sum[i] += sum[i - 1];
    return sum.subarray(0, N);
  };
  const curves = { requested: curve(d.requested, d.freed), allocated: curve(d.nbytes, d.freed), reserved: d.held };
  const active = curve(d.nbytes, d.until);
  const unused = new Float64Array(N);
  for (let i = 0; i < N; i++) unused[i] = d.held[i] > 0 ? Math.max(0, 1 - active[i] / d.held[i]) * 100 : 0;
  let peak = 0;
  for (let i = 1; i < N; i++) if (curves.requested[i] > curves.requested[peak]) peak = i;

  // --- Bokeh's models
  while (!(window.Bokeh && Bokeh.documents.length && Bokeh.documents[0].get_model_by_name("map") &&
      document.querySelector("[data-root-id]")?.hasChildNodes())) await new Promise((done) => setTimeout(done, 20));
  const doc = Bokeh.documents[0];
  const model = (name) => doc.get_model_by_name(name);
  const x = model("x"), y = model("y");
  const FIGURES = ["timeline", "map", "icicle", "fragmentation", "sizes", "lifetimes"];

  // --- colours
  let mode = meta.stacks.some((stack) => stack.length) ? "site" : "size";
  let colours = new Uint32Array(B);
  const site = meta.sites; // of each stack: the number of its line of the program
  function colour() {
    const keys = [];
    if (mode === "size" || mode === "age") {
      const value = (b) => mode === "size" ? Math.log2(d.requested[b] + 1)
        : Math.log10(Math.max(timeOf(d.freed[b]) - d.time[d.from[b]], 1e-6));
      let least = Infinity, most = -Infinity;
      for (let b = 0; b < B; b++) { const v = value(b); if (v < least) least = v; if (v > most) most = v; }
      const span = most - least || 1, codes = SCALE.map(rgba);
      for (let b = 0; b < B; b++)
        colours[b] = codes[Math.min(SCALE.length - 1, Math.floor(((value(b) - least) / span) * SCALE.length))];
      if (B) SCALE.forEach((hex, i) => {
        const v = least + (span * i) / SCALE.length;
        keys.push([hex, "from " + (mode === "size" ? size(Math.max(2 ** v - 1, 0)) : duration(10 ** v))]);
      });
    } else {
      const library_names = [...new Set(meta.libraries)];
      const group = mode === "stream" ? d.stream
        : d.context.map((c) => mode === "site" ? site[c] : library_names.indexOf(meta.libraries[c]));
      const names = mode === "stream" ? meta.streams.map((s) => "stream " + s)
        : mode === "site" ? meta.site_names : library_names;
      const held = new Float64Array(names.length);
      for (let b = 0; b < B; b++) held[group[b]] += d.requested[b] * (d.from[b] <= peak && d.freed[b] > peak ? 1e6 : 1);
      const ranked = [...held.keys()].sort((p, q) => held[q] - held[p]).filter((g) => held[g] > 0);
      const code = new Uint32Array(names.length).fill(rgba(OTHER));
      ranked.slice(0, CATEGORIES.length).forEach((g, i) => { code[g] = rgba(CATEGORIES[i]); keys.push([CATEGORIES[i], names[g]]); });
      if (ranked.length > CATEGORIES.length) keys.push([OTHER, "others"]);
      for (let b = 0; b < B; b++) colours[b] = code[group[b]];
    }
    byId("legend").innerHTML = keys.map(([hex, name]) =>
      `<span class="key"><i style="background:${hex}"></i>${escaped(name)}</span>`).join("");
    byId("colour").value = mode;
  }

  // --- the visible window
  const firstAfter = (moment) => {
    let low = 0, high = N;
    while (low < high) { const mid = (low + high) >> 1; if (d.time[mid] <= moment) low = mid + 1; else high = mid; }
    return low;
  };
  function thin(values, columns) {
    const low = Math.max(firstAfter(x.start) - 1, 0), high = Math.min(firstAfter(x.end) + 1, N);
    const xs = [], ys = [];
    if (high - low <= 3 * columns) {
      for (let i = low; i < high; i++) { xs.push(d.time[i]); ys.push(values[i]); }
    } else {
      const width = (x.end - x.start) / columns;
      let i = low;
      while (i < high) {
        const column = Math.floor((d.time[i] - x.start) / width);
        let least = i, most = i, last = i;
        for (; i < high && Math.floor((d.time[i] - x.start) / width) === column; i++) {
          if (values[i] < values[least]) least = i;
          if (values[i] > values[most]) most = i;
          last = i;
        }
        for (const j of [...new Set([Math.min(least, most), Math.max(least, most), last])]) { xs.push(d.time[j]); ys.push(values[j]); }
      }
    }
    if (high === N && N) { xs.push(Math.max(x.end, end)); ys.push(values[N - 1]); }
    return { x: xs, y: ys };
  }
  const NDArray = model("raster").data.image[0].constructor;
  function raster() {
    const box = model("map");
    const W = Math.min(Math.max(Math.round(box.inner_width || 1200), 200), 2400);
    const H = Math.min(Math.max(Math.round(box.inner_height || 400), 100), 1200);
    const pixels = new NDArray(new ArrayBuffer(4 * W * H), [H, W]);
    const dx = (x.end - x.start) / W, dy = (y.end - y.start) / H;
    const paint = (t0, t1, low, high, code) => {
      if (t1 < x.start || t0 > x.end || high < y.start || low > y.end) return;
      const c0 = Math.max(Math.floor((t0 - x.start) / dx), 0), r0 = Math.max(Math.floor((low - y.start) / dy), 0);
      const c1 = Math.min(Math.max(Math.floor((t1 - x.start) / dx), c0 + 1), W);
      const r1 = Math.min(Math.max(Math.floor((high - y.start) / dy), r0 + 1), H);
      if (c1 - c0 > 16) for (let r = r0; r < r1; r++) pixels.fill(code, r * W + c0, r * W + c1);
      else for (let r = r0; r < r1; r++) for (let i = r * W + c0; i < r * W + c1; i++) pixels[i] = code;
    };
    const behind = rgba(dark() ? "#39424f" : "#d4d9e0");
    for (let s = 0; s < S; s++)
      paint(timeOf(d.segment_from[s]), timeOf(d.segment_until[s]), d.segment_y[s], d.segment_y[s] + d.segment_nbytes[s], behind);
    for (let b = 0; b < B && begins[b] <= x.end; b++) // in order of their allocation
      if (ends[b] >= x.start) paint(begins[b], ends[b], d.y[b], d.y[b] + d.nbytes[b], colours[b]);
    model("raster").data = { image: [pixels], x: [x.start], y: [y.start], dw: [x.end - x.start], dh: [y.end - y.start] };
  }
  let queued = false;
  function draw() {
    queued = false;
    const began = performance.now();
    const columns = Math.min(Math.max(Math.round(model("timeline").inner_width || 1200), 200), 2400);
    for (const name of ["requested", "allocated", "reserved"]) model(name).data = thin(curves[name], columns);
    model("unused").data = thin(unused, columns);
    raster();
    cuplug.drawn = performance.now() - began;
  }
  const redraw = () => { if (!queued) { queued = true; requestAnimationFrame(draw); } };

  // --- what is live
  let cursor = peak;
  function live() {
    const root = { name: "all", bytes: 0, blocks: 0, children: new Map() };
    const stacks = meta.stacks.some((stack) => stack.length);
    for (let b = 0; b < B; b++) {
      if (d.from[b] > cursor || d.freed[b] <= cursor) continue;
      const path = !stacks ? ["stream " + meta.streams[d.stream[b]], "up to " + size(2 ** Math.ceil(Math.log2(Math.max(d.requested[b], 512))))]
        : meta.stacks[d.context[b]].length ? [...meta.stacks[d.context[b]]].reverse() : ["no call stack"];
      let node = root;
      node.bytes += d.requested[b]; node.blocks++;
      for (const name of path) {
        if (!node.children.has(name)) node.children.set(name, { name, bytes: 0, blocks: 0, children: new Map() });
        node = node.children.get(name);
        node.bytes += d.requested[b]; node.blocks++;
      }
    }
    const out = { left: [], right: [], top: [], bottom: [], name: [], text: [], size: [], exact: [], share: [], blocks: [], colour: [], x: [], y: [] };
    const width = model("icicle").inner_width || 1200;
    let deepest = 0, number = 0;
    const place = (node, left, depth) => {
      const share = root.bytes ? node.bytes / root.bytes : 0;
      if (share * width < 0.7) return;
      deepest = Math.max(deepest, depth);
      const label = depth ? node.name : `live: ${size(node.bytes)}`;
      const room = Math.floor((share * width - 10) / 7);
      out.left.push(left); out.right.push(left + share); out.top.push(-depth); out.bottom.push(-depth - 1);
      out.name.push(label); out.size.push(size(node.bytes)); out.exact.push(node.bytes); out.blocks.push(node.blocks);
      out.share.push((share * 100).toFixed(1) + " %"); out.x.push(left + 4 / width); out.y.push(-depth - 0.5);
      out.text.push(room < 4 ? "" : label.length > room ? label.slice(0, room - 1) + "…" : label);
      out.colour.push(depth ? ["#f4a259", "#f7b267", "#f9c784", "#f5d491"][number++ % 4] : "#c9d2de");
      for (const child of [...node.children.values()].sort((p, q) => q.bytes - p.bytes)) {
        place(child, left, depth + 1);
        left += root.bytes ? child.bytes / root.bytes : 0;
      }
    };
    place(root, 0, 0);
    model("tree").data = out;
    model("icicle").y_range.setv({ start: -deepest - 1, end: 0 });
    model("icicle").height = 30 + 26 * (deepest + 1);
    byId("live-title").textContent = cursor === peak ? "Live at the peak" : `Live at ${d.time[cursor]?.toFixed(6)} s`;
    byId("live-text").textContent = `${root.bytes} bytes (${size(root.bytes)}) requested, in ${root.blocks} blocks, ` +
      (stacks ? "by call stack: the program's outermost call is on top, the line that asked for memory at the bottom."
        : "by stream and size: this trace has no call stacks.");
    for (const name of ["cursor-timeline", "cursor-map", "cursor-fragmentation"]) model(name).location = d.time[cursor] ?? 0;
    cuplug.live = { event: cursor, bytes: root.bytes, blocks: root.blocks };
  }
  cuplug.tap = (moment) => { cursor = Math.min(Math.max(firstAfter(moment) - 1, 0), Math.max(N - 1, 0)); live(); };

  // --- pointing at a block
  let mouse = [0, 0];
  document.addEventListener("mousemove", (event) => { mouse = [event.clientX, event.clientY]; }, true);
  cuplug.leave = () => { byId("tip").style.display = "none"; model("hit").data = { left: [], right: [], top: [], bottom: [] }; };
  cuplug.hover = (moment, place) => {
    let hit = -1;
    for (let b = B - 1; b >= 0; b--)
      if (place >= d.y[b] && place < d.y[b] + d.nbytes[b] && moment >= begins[b] && moment < ends[b]) { hit = b; break; }
    if (hit < 0) return cuplug.leave();
    const b = hit, freed = d.freed[b] < N;
    const life = timeOf(d.freed[b]) - d.time[d.from[b]];
    const frames = meta.stacks[d.context[b]].map((frame) => `<div class="frame">${escaped(frame)}</div>`).join("");
    const tip = byId("tip");
    tip.innerHTML = `<b>${size(d.requested[b])}</b> (${d.requested[b]} bytes requested, ${d.nbytes[b]} set aside)<br>` +
      `address 0x${d.address[b].toString(16)}, stream ${meta.streams[d.stream[b]]}, ${escaped(meta.libraries[d.context[b]])}<br>` +
      `lifetime ${freed ? duration(life) : "never freed"}, from ${d.time[d.from[b]].toFixed(6)} s<br>` +
      (frames || '<span class="soft">no call stack</span>');
    tip.style.display = "block";
    const right = mouse[0] + tip.offsetWidth + 24 > innerWidth, low = mouse[1] + tip.offsetHeight + 24 > innerHeight;
    tip.style.left = Math.max(right ? mouse[0] - tip.offsetWidth - 14 : mouse[0] + 14, 4) + "px";
    tip.style.top = Math.max(low ? mouse[1] - tip.offsetHeight - 14 : mouse[1] + 14, 4) + "px";
    model("hit").data = { left: [d.time[d.from[b]]], right: [timeOf(d.until[b])], bottom: [d.y[b]], top: [d.y[b] + d.nbytes[b]] };
  };

  // --- controls
  const limit = Math.max(end, 1e-9), extent = Math.max(meta.extent, 1);
  const show = (start, stop) => {
    const span = Math.min(Math.max(stop - start, limit * 1e-6), limit);
    start = Math.min(Math.max(start, 0), limit - span);
    x.setv({ start, end: start + span });
  };
  const zoom = (factor) => {
    const middle = (x.start + x.end) / 2, half = ((x.end - x.start) / 2) * factor;
    show(middle - half, middle + half);
  };
  const pan = (share) => { const by = (x.end - x.start) * share; show(x.start + by, x.end + by); };
  const panUp = (share) => {
    const by = (y.end - y.start) * share, span = y.end - y.start;
    const start = Math.min(Math.max(y.start + by, 0), extent - span);
    y.setv({ start, end: start + span });
  };
  const all = () => { x.setv({ start: 0, end: limit }); y.setv({ start: 0, end: extent }); };
  const toPeak = () => { cursor = peak; live(); show(d.time[peak] - limit / 40, d.time[peak] + limit / 40); };
  const setMode = (next) => { mode = next; colour(); redraw(); };
  const dark = () => document.documentElement.classList.contains("dark");
  function theme(isDark) {
    document.documentElement.classList.toggle("dark", isDark);
    const [card, ink, soft, line, bad] = isDark
      ? ["#1a2029", "#e4e9f0", "#9aa7b8", "#2c3542", "#ff8a80"] : ["#ffffff", "#1b2430", "#5b6675", "#e4e8ee", "#cc2222"];
    for (const name of FIGURES) {
      const figure = model(name);
      figure.setv({ background_fill_color: card, border_fill_color: card, outline_line_color: line });
      for (const part of [...figure.above, ...figure.below, ...figure.left, ...figure.center]) {
        if ("major_label_text_color" in part)
          part.setv({ major_label_text_color: soft, axis_label_text_color: soft, axis_line_color: line, major_tick_line_color: soft, minor_tick_line_color: null });
        else if ("label_text_color" in part)
          part.setv({ label_text_color: ink, background_fill_color: card, background_fill_alpha: 0.85, border_line_color: line });
        else if ("dimension" in part && "grid_line_color" in part) part.grid_line_color = line;
        else if ("text_color" in part) part.text_color = { value: bad };
      }
    }
    for (const name of ["cursor-timeline", "cursor-map", "cursor-fragmentation"]) model(name).line_color = ink;
    redraw();
  }
  byId("to-peak").onclick = toPeak;
  byId("to-all").onclick = all;
  byId("zoom-in").onclick = () => zoom(0.5);
  byId("zoom-out").onclick = () => zoom(2);
  byId("colour").onchange = (event) => setMode(event.target.value);
  byId("theme").onclick = () => theme(!dark());
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.tagName === "SELECT") return;
    const actions = {
      ArrowLeft: () => pan(-0.2), ArrowRight: () => pan(0.2), "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2),
      0: all, p: toPeak, d: () => theme(!dark()), c: () => setMode(MODES[(MODES.indexOf(mode) + 1) % MODES.length]),
      PageUp: event.shiftKey ? () => panUp(0.2) : null, PageDown: event.shiftKey ? () => panUp(-0.2) : null,
    };
    if (actions[event.key]) { actions[event.key](); event.preventDefault(); }
  });

  all();
  colour();
  theme(matchMedia("(prefers-color-scheme: dark)").matches);
  model("peak").data = N ? { x: [d.time[peak]], y: [curves.requested[peak]], text: [`peak ${size(curves.requested[peak])}`] } : { x: [], y: [], text: [] };
  live();
  for (const range of [x, y]) range.change.connect(redraw);
  model("map").properties.inner_width.change.connect(redraw);
  model("icicle").properties.inner_width.change.connect(live);
  byId("tip").style.display = "none";
  Object.assign(cuplug, { d, x, y, model, curves, peak, meta, mode: () => mode });
  draw();
  cuplug.ready = true;
})().catch((error) => {
  cuplug.error = String(error);
  document.getElementById("findings").insertAdjacentHTML("afterend", "<p><b>The charts cannot be drawn: </b>" + cuplug.error + "</p>");
});
