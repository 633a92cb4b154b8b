// One device's history: its overview, and its chunks, each unpacked when it is looked at.
"use strict";
const size = (bytes) => {
  for (const [unit, name] of [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]])
    if (Math.abs(bytes) >= unit) return (bytes / unit).toFixed(2) + " " + name;
  return bytes.toFixed(0) + " B";
};
let timeIs = "seconds"; // what times are: "events" where a history has none, "moment" where it is a state alone
const ordinal = (seconds) => (seconds * 1e6).toFixed(0); // events without times are one microsecond apart
const when = (seconds) => (timeIs === "seconds" ? seconds.toFixed(6) + " s" : "event " + ordinal(seconds));
const duration = (seconds) =>
  timeIs !== "seconds" ? ordinal(seconds) + " events" : seconds >= 1 ? seconds.toFixed(3) + " s" : seconds >= 1e-3 ? (seconds * 1e3).toFixed(3) + " ms"
    : (seconds * 1e6).toFixed(1) + " \u00b5s";
const PROGRAM = 0, NOISE = 2; // kinds of frames
const AT_ONCE = 16; // chunks that are drawn block by block
const KEPT = 40; // unpacked chunks that are kept

async function unpack(element, shapes) {
  const text = atob(element.textContent.trim());
  const packed = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) packed[i] = text.charCodeAt(i);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const raw = await new Response(stream).arrayBuffer();
  const found = {};
  let at = 0;
  for (const [name, kind, length] of shapes) {
    if (kind === "u4") {
      const bytes = new Uint8Array(raw, at, 4 * length), out = new Uint32Array(length);
      for (let i = 0; i < length; i++)
        out[i] = (bytes[i] | (bytes[i + length] << 8) | (bytes[i + 2 * length] << 16) | (bytes[i + 3 * length] << 24)) >>> 0;
      found[name] = out;
      at += 4 * length;
    } else {
      const type = kind === "f8" ? Float64Array : Float32Array;
      found[name] = new type(raw.slice(at, at + length * type.BYTES_PER_ELEMENT));
      at += length * type.BYTES_PER_ELEMENT;
    }
  }
  return found;
}

class View {
  constructor(number, meta) {
    Object.assign(this, meta, { number, cache: new Map(), loading: new Map(), detail: null });
  }

  async open() {
    this.o = await unpack(document.getElementById(`v${this.number}-overview`), this.overview);
    this.bins = this.o.bin_events.length;
    this.sorts = this.o.sort_nbytes.length;
    let peak = 0;
    for (let i = 1; i < this.bins; i++) if (this.o.requested_most[i] > this.o.requested_most[peak]) peak = i;
    this.peakBin = peak;
    this.kindOf = new Map(this.frames.map((name, frame) => [name, this.frame_kinds[frame]]));
    this.wholeTexts = this.stacks.map((stack) => stack.map((frame) => this.frames[frame]));
    this.clearTexts = this.wholeTexts.map((stack) => stack.filter((frame) => this.kindOf.get(frame) !== NOISE));
    this.texts = this.clearTexts;
    // The exact event of the peak: within its bin.
    const chunk = await this.chunk(this.chunkOf(Math.max((this.o.bin_events[peak] || 1) - 1, 0)));
    const before = await this.chunk(Math.max(chunk.number - 1, 0));
    this.peak = 0;
    let most = -1;
    for (const part of new Set([before, chunk]))
      for (let i = 0; i < part.events; i++) if (part.requested[i] > most) { most = part.requested[i]; this.peak = part.first + i; }
    this.peakBytes = Math.max(most, 0);
    this.peakTime = await this.timeOf(this.peak);
    if (this.chunks.length <= AT_ONCE) await this.window(0, this.seconds);
  }

  chunkOf(event) {
    let low = 0, high = this.chunks.length - 1;
    while (low < high) { const mid = (low + high + 1) >> 1; if (this.chunks[mid].first <= event) low = mid; else high = mid - 1; }
    return low;
  }
  chunkAt(time) {
    let low = 0, high = this.chunks.length - 1;
    while (low < high) { const mid = (low + high + 1) >> 1; if (this.chunks[mid].seconds <= time) low = mid; else high = mid - 1; }
    return low;
  }

  // A chunk's columns, unpacked: times in seconds, blocks (those carried first), and the curves after each event.
  async chunk(number) {
    if (this.cache.has(number)) {
      const known = this.cache.get(number);
      this.cache.delete(number);
      this.cache.set(number, known);
      return known;
    }
    if (!this.loading.has(number)) this.loading.set(number, this.unpacked(number));
    const found = await this.loading.get(number);
    this.loading.delete(number);
    this.cache.set(number, found);
    while (this.cache.size > Math.max(KEPT, AT_ONCE)) this.cache.delete(this.cache.keys().next().value);
    return found;
  }

  async unpacked(number) {
    const head = this.chunks[number];
    const c = await unpack(document.getElementById(`v${this.number}-${number}`), head.columns);
    const n = head.events, carried = c.carried_id.length, own = c.from.length, m = carried + own;
    const part = { number, first: head.first, events: n, carried, n: m, other: new Map() };
    const time = (part.time = new Float64Array(n));
    for (let i = 0, at = 0; i < n; i++) { at += c.time[i]; time[i] = head.seconds + at * head.tick; }
    part.id = new Uint32Array(m); part.from = new Float64Array(m); part.freed = new Float64Array(m);
    part.until = new Float64Array(m); part.y = new Float64Array(m); part.sort = new Uint32Array(m);
    part.begun = new Float64Array(m);
    for (let b = 0, at = head.first; b < m; b++) {
      const k = b - carried, mine = k >= 0;
      if (mine) at += c.from[k];
      part.id[b] = mine ? head.block + k : c.carried_id[b];
      part.from[b] = mine ? at : c.carried_from[b];
      part.begun[b] = mine ? time[at - head.first] : c.carried_time[b];
      part.freed[b] = part.from[b] + (mine ? c.life[k] : c.carried_life[b]);
      part.until[b] = part.freed[b] + (((mine ? c.wait[k] : c.carried_wait[b]) | 0));
      part.y[b] = mine ? c.y[k] * 512 + c.y_low[k] : c.carried_y[b] * 512 + c.carried_y_low[b];
      part.sort[b] = mine ? c.sort[k] : c.carried_sort[b];
    }
    part.gone = Float64Array.from(part.freed, (event) => (event < head.first + n ? time[event - head.first] : this.about(event)));
    const curves = ["requested", "allocated", "active"].map(() => new Float64Array(n + 1));
    const { sort_requested, sort_nbytes } = this.o;
    for (let b = 0; b < m; b++) {
      const s = part.sort[b], from = part.from[b] - head.first, freed = part.freed[b] - head.first, until = part.until[b] - head.first;
      if (from >= 0) { curves[0][from] += sort_requested[s]; curves[1][from] += sort_nbytes[s]; curves[2][from] += sort_nbytes[s]; }
      if (freed >= 0 && freed < n) { curves[0][freed] -= sort_requested[s]; curves[1][freed] -= sort_nbytes[s]; }
      if (until >= 0 && until < n) curves[2][until] -= sort_nbytes[s];
    }
    curves.forEach((curve, k) => { let sum = head.before[k]; for (let i = 0; i < n; i++) curve[i] = sum += curve[i]; });
    [part.requested, part.allocated, part.active] = curves;
    const held = (part.reserved = new Float64Array(n)), created = this.pages_created;
    for (let i = 0, k = 0, sum = head.before[3]; i < n; i++) {
      if (k < c.other_event.length && c.other_event[k] === head.first + i) {
        const kind = this.kinds[c.other_kind[k]];
        const sign = created ? { segment_reserve: 1, page_create: 1, host_page_create: 1, segment_release: -1, page_release: -1, host_page_release: -1 }[kind]
          : { segment_reserve: 1, page_map: 1, segment_release: -1, page_unmap: -1 }[kind];
        sum += (sign || 0) * c.other_nbytes[k];
        part.other.set(head.first + i, { kind, nbytes: c.other_nbytes[k], requested: c.other_requested[k], address: c.other_address[k] });
        k++;
      }
      held[i] = sum;
    }
    return part;
  }

  // An event's time as far as it is known without its chunk: its share of the time between two chunks' first events.
  about(event) {
    if (event >= this.events) return this.seconds;
    const number = this.chunkOf(event), head = this.chunks[number];
    const next = number + 1 < this.chunks.length ? this.chunks[number + 1].seconds : this.seconds;
    return head.seconds + ((event - head.first) / head.events) * (next - head.seconds);
  }
  async timeOf(event) {
    if (event >= this.events) return this.seconds;
    const part = await this.chunk(this.chunkOf(event));
    return part.time[event - part.first] ?? this.seconds;
  }
  async eventAt(time) {
    const part = await this.chunk(this.chunkAt(time));
    let low = 0, high = part.events;
    while (low < high) { const mid = (low + high) >> 1; if (part.time[mid] <= time) low = mid + 1; else high = mid; }
    return part.first + Math.max(low - 1, 0);
  }

  // What is to be drawn between two times: every block where few chunks hold them, else the largest of the history.
  get overviewBlocks() {
    const o = this.o;
    return (this._large ??= { n: o.large_id.length, id: o.large_id, begun: o.large_from, gone: o.large_freed,
      reusable: o.large_until, y: o.large_y, sort: o.large_sort, exact: false });
  }
  range(start, end) { return [this.chunkAt(start), this.chunkAt(end)]; }
  ready(start, end) { // a detail that is loaded, or null
    const [low, high] = this.range(start, end), detail = this.detail;
    return detail && detail.low <= low && detail.high >= high ? detail : null;
  }
  fits(start, end) { const [low, high] = this.range(start, end); return high - low < AT_ONCE; }
  async window(start, end) {
    const [low, high] = this.range(start, end);
    if (high - low >= AT_ONCE) return null;
    if (this.ready(start, end)) return this.detail;
    const parts = [];
    for (let number = low; number <= high; number++) parts.push(await this.chunk(number));
    const n = parts.reduce((sum, part, k) => sum + (k ? part.n - part.carried : part.n), 0);
    const count = parts.reduce((sum, part) => sum + part.events, 0), first = parts[0].first;
    const d = { low, high, first, n, events: count, exact: true, id: new Uint32Array(n), from: new Float64Array(n),
      freed: new Float64Array(n), until: new Float64Array(n), y: new Float64Array(n), sort: new Uint32Array(n),
      begun: new Float64Array(n), gone: new Float64Array(n), reusable: new Float64Array(n), time: new Float64Array(count),
      requested: new Float64Array(count), allocated: new Float64Array(count), active: new Float64Array(count),
      reserved: new Float64Array(count) };
    let at = 0, place = 0;
    for (const [k, part] of parts.entries()) {
      const skip = k ? part.carried : 0;
      for (const name of ["id", "from", "freed", "until", "y", "sort", "begun"]) d[name].set(part[name].subarray(skip), at);
      for (const name of ["time", "reserved"]) d[name].set(part[name], place);
      for (const name of ["requested", "allocated", "active"]) d[name].set(part[name].subarray(0, part.events), place);
      at += part.n - skip;
      place += part.events;
    }
    const timeOf = (event) => (event < first + count ? d.time[event - first] : this.about(event));
    for (let b = 0; b < n; b++) { d.gone[b] = timeOf(d.freed[b]); d.reusable[b] = timeOf(d.until[b]); }
    return (this.detail = d);
  }

  // What is live after an event: places in its chunk.
  async live(event) {
    const part = await this.chunk(this.chunkOf(event));
    const places = [];
    for (let b = 0; b < part.n; b++) if (part.from[b] <= event && part.freed[b] > event) places.push(b);
    return { part, places };
  }

  stackOf(sort) { return this.texts[this.o.sort_stack[sort]] || []; }
  // Noise is what says nothing: the unwinder, the allocator, the interpreter.
  showNoise(shown) { this.texts = shown ? this.wholeTexts : this.clearTexts; }
  isProgram(name) { return this.kindOf.get(name) === PROGRAM; }
  // From the program's outermost frame inwards; where it has none, below the operation.
  pathOf(sort, libraries) {
    const stack = this.stackOf(sort), path = [...stack].reverse();
    if (this.texts === this.wholeTexts && libraries) return path;
    const first = path.findIndex((name) => this.isProgram(name));
    if (first < 0) return stack.length && libraries ? [this.siteOf(sort), ...path] : [this.siteOf(sort)];
    return path.slice(first).filter((name) => libraries || this.isProgram(name));
  }
  siteOf(sort) { return this.sites[this.site[this.o.sort_stack[sort]]] || "no call stack"; }
  siteAt(sort, depth) {
    if (!depth) return this.siteOf(sort);
    const stack = this.stackOf(sort);
    return stack.length ? stack[Math.min(depth, stack.length) - 1] : "no call stack";
  }
  libraryOf(sort) { return this.libraries[this.o.sort_stack[sort]] || "unknown"; }
  streamOf(sort) { return "stream " + this.streams[this.o.sort_stream[sort]]; }
  // Where the stacks are modules, a frame is "layer1.0.conv (forward)".
  moduleOf(sort) {
    if (this.modules) return this.stackOf(sort).length ? this.siteOf(sort).replace(/ \(\w+\)$/, "") : "outside modules";
    const layer = this.stackOf(sort).map((frame) => /\/nn\/modules\/(?!module\.py)(\w+)\.py/.exec(frame)).find(Boolean);
    if (layer) return layer[1];
    const file = /\(([^()]*):\d+\)$/.exec(this.siteOf(sort));
    return file ? file[1].split("/").pop() : this.siteOf(sort);
  }
  // By the markers that the program has set, or else by the names of the functions on the stack.
  phaseOf(sort, time) {
    if (this.modules) return (/ \((\w+)\)$/.exec(this.siteOf(sort)) || [0, "no phase"])[1];
    if (this.markers.length) {
      let low = 0, high = this.markers.length;
      while (low < high) { const mid = (low + high) >> 1; if (this.markers[mid][1] <= time) low = mid + 1; else high = mid; }
      return low ? this.markers[low - 1][2].replace(/[\s:#_-]*\d+$/, "") : "before the first marker";
    }
    const stack = (this.wholeTexts[this.o.sort_stack[sort]] || []).join("\n");
    return !stack ? "no call stack" : /backward/i.test(stack) ? "backward" : /optim|\bstep \(/i.test(stack) ? "optimizer"
      : /forward/i.test(stack) ? "forward" : "other";
  }
  addressOf(y) {
    const places = this.o.piece_y;
    let low = 0, high = places.length - 2;
    while (low < high) { const mid = (low + high + 1) >> 1; if (places[mid] <= y) low = mid; else high = mid - 1; }
    return "0x" + (BigInt(this.o.piece_start[low] || 0) + BigInt(Math.round(y - (places[low] || 0)))).toString(16);
  }
}
