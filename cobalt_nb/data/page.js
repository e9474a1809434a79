"use strict";
// The figures of a page: data come from the element #data, every text goes in as text.
(() => {
  const D = JSON.parse(document.getElementById("data").textContent);
  const NS = document.querySelector("svg").namespaceURI;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const tip = document.getElementById("tip");
  const kinds = { feasible: "dot", infeasible: "cross", "not known": "unknown", failed: "cross" };
  const named = name => D.functions.find(one => one.name === name);
  const finite = values => values.filter(v => Number.isFinite(v));
  let paper = false; // while the page is printed

  // Words and numbers
  const short = (v, digits = 4) => {
    if (v === null || v === undefined) return "–";
    if (typeof v !== "number") return String(v);
    const size = Math.abs(v), far = v !== 0 && (size < 1e-3 || size >= 1e6);
    const text = far ? v.toExponential(digits - 1).replace(/\.?0+e/, "e").replace("e+", "e")
      : String(+v.toPrecision(digits));
    return text.replaceAll("-", "−");
  };
  const united = name => D.units?.[name] ? `${name} [${D.units[name]}]` : name;
  const valued = (name, v) => short(v, 6) + (v !== null && D.units?.[name] ? " " + D.units[name]
    : "");
  const parameter = name => D.parameters.find(one => one.name === name);
  const shownAt = (name, v) => parameter(name).labels ? parameter(name).labels[v] : valued(name, v);

  // Pieces of a drawing
  const make = (tag, attributes, parent) => {
    const node = document.createElementNS(NS, tag);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    parent?.append(node);
    return node;
  };
  const write = (parent, x, y, text, attributes = {}) => {
    const node = make("text", { x, y, ...attributes }, parent);
    node.textContent = text;
    return node;
  };
  const path = points => points.map((p, k) => (k ? "L" : "M") + p[0].toFixed(1) + " "
    + p[1].toFixed(1)).join("");
  const marks = {
    dot: (g, x, y) => make("circle", { cx: x, cy: y, r: 4.2, class: "dot" }, g),
    unknown: (g, x, y) => make("rect", { x: x - 3.6, y: y - 3.6, width: 7.2, height: 7.2,
      class: "unknown" }, g),
    cross: (g, x, y) => {
      const d = `M${x - 3.6} ${y - 3.6}l7.2 7.2m0 -7.2l-7.2 7.2`;
      const pair = make("g", {}, g);
      make("path", { d, class: "halo" }, pair);
      make("path", { d, class: "cross" }, pair);
      return pair;
    },
    star: (g, x, y) => {
      const tips = [...Array(10).keys()].map(k => {
        const r = k % 2 ? 4 : 9.5, a = Math.PI * (k / 5 - 0.5);
        return [x + r * Math.cos(a), y + r * Math.sin(a)];
      });
      return make("path", { d: path(tips) + "Z", class: "star" }, g);
    },
  };

  // Axes: from a value to its share of the length
  const plainTicks = (low, high, n, whole = false) => {
    const raw = (high - low) / Math.max(n, 1), power = 10 ** Math.floor(Math.log10(raw));
    const sizes = [0.2, 0.5, 1, 2, 5, 10].map(k => k * power);
    const count = s => Math.floor(high / s + 1e-9) - Math.ceil(low / s - 1e-9) + 1;
    let k = sizes.findIndex(s => s >= raw * 0.999);
    while (k > 0 && count(sizes[k]) < 3) k--; // too few to read a scale
    const step = whole ? Math.max(Math.round(sizes[k]), 1) : sizes[k];
    const size = Math.max(Math.abs(low), Math.abs(high));
    const digits = Math.min(Math.max(Math.ceil(Math.log10(size / step)) + 1, 1), 12);
    const first = Math.ceil(low / step - 1e-9), last = Math.floor(high / step + 1e-9);
    const places = [...Array(Math.max(last - first + 1, 0)).keys()].map(j => (first + j) * step);
    return places.map(v => [v, short(+v.toPrecision(12), digits)]);
  };
  const logTicks = (low, high, n) => {
    const all = [];
    for (let e = Math.floor(Math.log10(low)); 10 ** e <= high; e++) for (const m of [1, 2,
      5]) all.push(m * 10 ** e);
    const inside = all.filter(v => v >= low * 0.999 && v <= high * 1.001);
    const tens = inside.filter(v => Math.abs(Math.log10(v) % 1) < 1e-9);
    const chosen = tens.length > 2 || inside.length > n ? tens : inside;
    return chosen.length > 1 ? chosen.map(v => [v, short(v)]) : plainTicks(low, high, n);
  };
  const range = (low, high, log = false, whole = false) => {
    if (!(high > low)) [low, high] = [low - (Math.abs(low) || 1) * 0.5, low
      + (Math.abs(low) || 1) * 0.5];
    return {
      low, high,
      at: v => log ? Math.log(v / low) / Math.log(high / low) : (v - low) / (high - low),
      ticks: n => log ? logTicks(low, high, n) : plainTicks(low, high, n, whole),
    };
  };
  const choice = labels => ({
    low: 0, high: labels.length - 1, labels,
    at: k => (k + 0.5) / labels.length, ticks: () => labels.map((label, k) => [k, label]),
  });
  const beside = one => Math.min(0.5, (one.high - one.low) * 0.05);
  const along = name => {
    const one = parameter(name);
    if (one.labels) return choice(one.labels);
    if (one.kind === "int" && !one.log) return range(one.low - beside(one), one.high + beside(one),
      false, true);
    return range(one.low, one.high, one.log);
  };
  const roomy = values => {
    const known = finite(values), low = Math.min(...known), high = Math.max(...known);
    if (!known.length) return range(0, 1);
    const room = 0.07 * (high - low) || Math.abs(high) * 0.05 || 1;
    return range(low - room, high + room);
  };

  // A frame with axes; gives places in pixels
  const frame = (box, x, y, options) => {
    box.replaceChildren();
    const W = Math.max(Math.round(box.clientWidth), 220);
    const H = options.height ?? Math.round(Math.min(Math.max(W * 0.6, 190), 340));
    const yTicks = y.ticks(Math.max(3, Math.round(H / 55)));
    const clip = (text, most) => text.length > most ? text.slice(0, Math.max(most - 1, 1)) + "…"
      : text;
    const wide = Math.min(Math.max(...yTicks.map(t => t[1].length), 2), 14);
    const left = 12 + 7 * wide, right = 10, top = 24, bottom = 40;
    const w = W - left - right, h = H - top - bottom;
    const svg = make("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": options.label },
      null);
    box.append(svg);
    const sx = v => left + w * x.at(v), sy = v => top + h * (1 - y.at(v));
    const back = make("g", {}, svg);
    for (const [v, text] of yTicks) {
      make("path", { d: `M${left} ${sy(v)}h${w}`, class: "grid" }, back);
      write(back, left - 6, sy(v) + 4, clip(text, 14), { "text-anchor": "end" });
    }
    const xTicks = x.ticks(Math.max(2, Math.round(w / 75)));
    const most = x.labels ? Math.floor(w / xTicks.length / 6.6) : 99;
    for (const [v, text] of xTicks) {
      make("path", { d: `M${sx(v)} ${top + h}v5`, class: "axis" }, back);
      const node = write(back, sx(v), top + h + 18, clip(text, most), { "text-anchor": "middle" });
      make("title", {}, node).textContent = text;
    }
    make("path", { d: `M${left} ${top}v${h}h${w}`, class: "axis" }, back);
    const name = (x, y, text, more = {}) => {
      const node = write(back, x, y, clip(text, Math.floor(w / 7.2)), { class: "name", ...more });
      make("title", {}, node).textContent = text;
    };
    name(left - 4, 13, options.yname);
    name(left + w, top + h + 35, options.xname, { "text-anchor": "end" });
    const id = "clip" + Math.random().toString(36).slice(2);
    make("rect", { x: left, y: top, width: w, height: h }, make("clipPath", { id }, svg));
    const inner = make("g", { "clip-path": `url(#${id})` }, svg), front = make("g", {}, svg);
    const stay = v => Math.min(Math.max(v, top), top + h);
    return { svg, inner, front, sx, sy, stay, left, top, w, h, W, H };
  };

  // What is under the pointer
  const hide = () => { tip.hidden = true; };
  const tell = (event, lines) => {
    tip.replaceChildren(...lines.filter(Boolean).map(line =>
      Object.assign(document.createElement("div"), { textContent: line })));
    tip.hidden = false;
    const { width, height } = tip.getBoundingClientRect(),
      room = document.documentElement.clientWidth;
    const x = Math.min(Math.max(event.pageX + 14, 4), room - width - 4);
    const above = event.clientY > innerHeight - height - 30;
    Object.assign(tip.style, { left: x + "px", top: event.pageY + (above ? -height - 12 : 16)
      + "px" });
  };
  const listen = (f, points, words, flat = false) => {
    const ring = make("circle", { r: 7, class: "ring", visibility: "hidden" }, f.svg);
    const area = make("rect", { x: f.left, y: f.top, width: f.w, height: f.h, class: "catch" },
      f.svg);
    const leave = () => { hide(); ring.setAttribute("visibility", "hidden"); };
    const move = event => {
      const seen = f.svg.getBoundingClientRect(), k = f.W / seen.width;
      const x = (event.clientX - seen.left) * k, y = (event.clientY - seen.top) * k;
      const far = p => flat ? Math.abs(p[0] - x) : Math.hypot(p[0] - x, p[1] - y);
      const near = points.reduce((a, b) => !a || far(b) < far(a) ? b : a, null);
      if (!near || (!flat && far(near) > 32)) {
        const other = f.elsewhere?.(x, y);
        ring.setAttribute("visibility", "hidden");
        return other ? tell(event, other) : hide();
      }
      ring.setAttribute("cx", near[0]);
      ring.setAttribute("cy", near[1]);
      ring.setAttribute("visibility", "visible");
      tell(event, words(near[2]));
    };
    area.addEventListener("pointermove", move);
    area.addEventListener("pointerdown", move);
    area.addEventListener("pointerleave", leave);
  };
  const evaluation = i => {
    const E = D.evaluations, point = Object.entries(E.x).map(([name, v]) =>
      `${name} = ${shownAt(name, v[i])}`);
    const values = Object.entries(E.y).map(([name, v]) => `${name}: ${valued(name, v[i])}`);
    const many = point.length > 8 ? [...point.slice(0, 8), `and ${point.length - 8} more`] : point;
    return [`evaluation ${i + 1}, ${E.kind[i]}`, ...values, many.join(", "), E.reason[i]];
  };

  // The run
  const trace = box => {
    const E = D.evaluations, y = E.y[D.objective], n = y.length, near = box.dataset.near === "1";
    const good = y.filter((_, i) => E.kind[i] === "feasible"),
      ends = D.intervals.flatMap(r => r.slice(1));
    let values = [...(finite(good).length ? good : y), ...ends];
    if (near && finite(E.best).length) {
      const last = D.intervals.at(-1)?.slice(1) ?? [],
        tail = finite(E.best).slice(-Math.ceil(n / 2));
      const best = tail.at(-1), reach = Math.max(...tail) - Math.min(...tail);
      const gap = finite(last).length === 2 ? last[1] - last[0] : Infinity;
      const span = Math.max(reach, gap < 20 * (reach || Infinity) ? gap : 0)
        || Math.abs(best) * 1e-3 || 1;
      values = [best - span, best + span];
    }
    const known = finite(values), room = 0.3 * (Math.max(...known) - Math.min(...known));
    if (!near && D.intervals.some(r => r[1] === null)) values.push(Math.min(...known) - room);
    if (!near && D.intervals.some(r => r[2] === null)) values.push(Math.max(...known) + room);
    const f = frame(box, range(0.5, n + 0.5, false, true), roomy(values), {
      label: "The objective over the evaluations", xname: "evaluation", yname: united(D.objective),
    });
    const high = [], low = [];
    D.intervals.forEach(([at, lower, upper], k) => {
      const until = (D.intervals[k + 1]?.[0] ?? n + 0.5), from = f.sx(at), to = f.sx(until);
      const top = upper === null ? f.top : f.stay(f.sy(upper));
      const bottom = lower === null ? f.top + f.h : f.stay(f.sy(lower));
      high.push([from, top], [to, top]);
      low.unshift([to, bottom], [from, bottom]);
      for (const [end, y] of [[lower, bottom], [upper, top]]) { // an open end has no edge
        if (end !== null) make("path", { d: path([[from, y], [to, y]]), class: "edge" }, f.inner);
      }
    });
    if (high.length) make("path", { d: path([...high, ...low]) + "Z", class: "band" }, f.inner);
    const line = [];
    E.best.forEach((v, i) => {
      if (v === null) return;
      if (line.length) line.push([f.sx(i + 1), line.at(-1)[1]]);
      line.push([f.sx(i + 1), f.sy(v)]);
    });
    if (line.length) make("path", { d: path([...line, [f.sx(n + 0.5), line.at(-1)[1]]]),
      class: "best" }, f.inner);
    const points = [];
    y.forEach((v, i) => {
      const gone = v === null, x = f.sx(i + 1), place = gone ? f.top + f.h - 6 : f.stay(f.sy(v));
      const node = marks[kinds[E.kind[i]]](f.front, x, place);
      if (gone) node.setAttribute("opacity", 0.45);
      points.push([x, place, i]);
    });
    listen(f, points, evaluation);
  };

  // Slices
  const heights = name => {
    const one = named(name), told = finite(D.evaluations.y[name]);
    if (one.labels) return range(-0.05, 1.05);
    const values = Object.values(D.slices).flatMap(s => s.bands[name].flat()),
      reach = Math.max(...told) - Math.min(...told);
    const held = told.length ? finite(values).map(v =>
      Math.min(Math.max(v, Math.min(...told) - 0.35 * reach), Math.max(...told) + 0.35 * reach))
      : values;
    return roomy([...held, one.lower, one.upper].filter(v => v !== null));
  };
  const slice = (box, name, key) => {
    const one = named(name), { values, bands } = D.slices[key], [mean, lower, upper] = bands[name];
    const x = along(key), y = heights(name);
    const f = frame(box, x, y, {
      label: `${name} along ${key}`, xname: united(key),
      yname: one.labels ? `chance that ${name} is met` : united(name), height: 210,
    });
    if (!one.labels) for (const [end, edge] of [[one.lower, f.top + f.h], [one.upper, f.top]]) {
      if (end === null) continue;
      const at = f.sy(end);
      make("rect", { x: f.left, y: Math.min(at, edge), width: f.w, height: Math.abs(edge - at),
        class: "outside" }, f.inner);
      make("path", { d: `M${f.left} ${at}h${f.w}`, class: "limit" }, f.inner);
    }
    const at = (list, k) => [f.sx(values[k]), list[k] === null ? f.top + f.h
      : f.stay(f.sy(list[k]))];
    const places = values.map((_, k) => k);
    if (x.labels) for (const k of places) {
      const [px, low] = at(lower, k), [, high] = at(upper, k), [, middle] = at(mean, k);
      make("rect", { x: px - 9, y: high, width: 18, height: Math.max(low - high, 1),
        class: "band" }, f.inner);
      make("path", { d: `M${px - 12} ${middle}h24`, class: "mean" }, f.inner);
    } else {
      make("path", { d: path([...places.map(k => at(upper, k)),
        ...[...places].reverse().map(k => at(lower, k))]) + "Z", class: "band" }, f.inner);
      make("path", { d: path(places.map(k => at(mean, k))), class: "mean" }, f.inner);
      for (const v of D.evaluations.x[key]) make("path",
        { d: `M${f.sx(v)} ${f.top + f.h}v-6`, class: "rug" }, f.inner);
    }
    const near = values.reduce((a, v, k) =>
      Math.abs(v - D.point[key]) < Math.abs(values[a] - D.point[key]) ? k : a, 0);
    const told = one.labels ? mean[near] : D.measured[name] ?? mean[near];
    if (told !== null) marks.star(f.front, f.sx(D.point[key]), f.stay(f.sy(told)));
    const words = k => [
      `${key} = ${shownAt(key, values[k])}`,
      `${name}: ${valued(name, mean[k])}`, `from ${short(lower[k])} to ${short(upper[k])} (±2 sd)`,
    ];
    listen(f, places.map(k => [...at(mean, k), k]), words, true);
  };
  const slices = box => {
    box.replaceChildren();
    const shown = paper ? D.functions.map(one => one.name)
      : [document.getElementById("pick-slice").value];
    const wanted = shown.flatMap(name => Object.keys(D.slices).map(key => [name, key]));
    const panels = wanted.map(() => document.createElement("div"));
    box.append(...panels); // all of them first: they share the width
    wanted.forEach(([name, key], k) => slice(panels[k], name, key));
  };

  // Planes
  const ramps = {
    light: [[247, 251, 255], [200, 220, 240], [122, 178, 215], [49, 130, 189], [8, 69, 132]],
    dark: [[28, 38, 54], [30, 66, 104], [36, 104, 158], [82, 156, 206], [168, 214, 242]],
  };
  const colour = (share, grey) => {
    const ramp = ramps[dark.matches && !paper ? "dark" : "light"], t = share * (ramp.length - 1),
      k = Math.min(Math.floor(t), ramp.length - 2);
    const rgb = ramp[k].map((v, j) => v + (t - k) * (ramp[k + 1][j] - v));
    const flat = 0.3 * rgb[0] + 0.59 * rgb[1] + 0.11 * rgb[2];
    const base = dark.matches && !paper ? 58 : 200;
    const parts = grey ? rgb.map(() => 0.35 * flat + 0.65 * base) : rgb;
    return `rgb(${parts.map(Math.round).join(",")})`;
  };
  const crossings = (values, rows, columns, level) => {
    const lines = [], at = (i, j) => values[i * columns + j] - level;
    for (let i = 0; i + 1 < rows; i++) for (let j = 0; j + 1 < columns; j++) {
      const cut = [];
      for (const [a, b, c, d] of [[i, j, i + 1, j], [i + 1, j, i + 1, j + 1],
        [i + 1, j + 1, i, j + 1], [i, j + 1, i, j]]) {
        const p = at(a, b), q = at(c, d);
        if ((p < 0) !== (q < 0)) cut.push([a + (c - a) * p / (p - q), b + (d - b) * p / (p - q)]);
      }
      for (let k = 0; k + 1 < cut.length; k += 2) lines.push([cut[k], cut[k + 1]]);
    }
    return lines;
  };
  const contours = box => {
    const shown = D.planes[+document.getElementById("pick-pair").value],
      name = document.getElementById("pick-field").value;
    const [a, b] = shown.pair, x = along(a), y = along(b), [xs, ys] = shown.axes,
      field = shown.means[name], one = named(name);
    const f = frame(box, x, y, {
      label: `${name} over ${a} and ${b}`, xname: united(a), yname: united(b),
      height: Math.round(Math.min(Math.max(box.clientWidth * 0.8, 260), 470)),
    });
    const value = k => field.low + (field.high - field.low) * field.steps[k] / 999;
    const better = name === D.objective && !D.maximize ? s => 1 - s : s => s;
    const edges = (list, axis, put) => {
      const p = list.map(put), end = [put === f.sx ? f.left : f.top + f.h, put === f.sx ? f.left
        + f.w : f.top];
      return list.map((_, k) => [k ? (p[k - 1] + p[k]) / 2 : end[0], k + 1 < p.length
        ? (p[k] + p[k + 1]) / 2 : end[1]]);
    };
    const ex = edges(xs, x, f.sx), ey = edges(ys, y, f.sy), m = ys.length;
    const find = (edge, v) => {
      const k = edge.findIndex(([p, q]) => v >= Math.min(p, q) && v <= Math.max(p, q));
      return Math.max(k, 0);
    };
    // a picture of the field: between the values of a real parameter it is interpolated
    const share = (list, put, edge, smooth, v) => {
      if (!smooth) return [find(edge, v), 0];
      const p = list.map(put), up = p[0] < p.at(-1);
      const k = Math.min(Math.max(p.findIndex(q => up ? q > v : q < v) - 1, 0), p.length - 2);
      const t = (v - p[k]) / (p[k + 1] - p[k]);
      const last = up ? v >= p.at(-1) : v <= p.at(-1);
      return last ? [p.length - 2, 1] : [k, Math.min(Math.max(t, 0), 1)];
    };
    const canvas = document.createElement("canvas"), fine = 1.5;
    canvas.width = Math.round(f.w * fine / 2);
    canvas.height = Math.round(f.h * fine / 2);
    const picture = canvas.getContext("2d");
    const real = [a, b].map(key => parameter(key).kind === "real");
    const columns = [...Array(canvas.width).keys()].map(k =>
      share(xs, f.sx, ex, real[0], f.left + (k + 0.5) * f.w / canvas.width));
    const rows = [...Array(canvas.height).keys()].map(k =>
      share(ys, f.sy, ey, real[1], f.top + (k + 0.5) * f.h / canvas.height));
    const blend = (values, [i, s], [j, t]) => {
      const k = i * m + j, u = s ? m : 0, v = t ? 1 : 0;
      return (1 - s) * ((1 - t) * values[k] + t * values[k + v])
        + s * ((1 - t) * values[k + u] + t * values[k + u + v]);
    };
    const tones = [...Array(256).keys()].map(k =>
      [false, true].map(grey => colour(better(k / 255), grey)));
    rows.forEach((row, py) => columns.forEach((column, px) => {
      const tone = tones[Math.round(blend(field.steps, column, row) / 999 * 255)];
      picture.fillStyle = tone[blend(shown.chance, column, row) < 50 ? 1 : 0];
      picture.fillRect(px, py, 1, 1);
    }));
    const image = { x: f.left, y: f.top, width: f.w, height: f.h, preserveAspectRatio: "none" };
    make("image", { ...image, href: canvas.toDataURL() }, f.inner);
    const numeric = !x.labels && !y.labels;
    const between = (list, put, t) => { const k = Math.min(Math.floor(t),
      list.length - 2); return put(list[k]) + (t - k) * (put(list[k + 1]) - put(list[k])); };
    const spot = p => [between(xs, f.sx, p[0]), between(ys, f.sy, p[1])];
    const heights = field.steps.map((_, k) => value(k));
    const draw = (level, kind, of = heights) => {
      const d = crossings(of, xs.length, m, level).map(s => path(s.map(spot))).join("");
      if (d) make("path", { d, class: kind }, f.inner);
    };
    if (numeric) draw(50, "half", shown.chance);
    if (numeric && field.high > field.low) {
      for (const [level] of plainTicks(field.low, field.high, 9)) draw(level, "contour");
      for (const end of one.labels ? [] : [one.lower, one.upper]) if (end !== null) draw(end,
        "limit");
    }
    const inside = (i, j) => shown.roi[i * m + j] === "1";
    let border = "";
    xs.forEach((_, i) => ys.forEach((_, j) => {
      if (!inside(i, j)) return;
      const [l, r] = ex[i], [bottom, top] = ey[j];
      if (i === 0 || !inside(i - 1, j)) border += `M${l} ${top}V${bottom}`;
      if (i + 1 === xs.length || !inside(i + 1, j)) border += `M${r} ${top}V${bottom}`;
      if (j === 0 || !inside(i, j - 1)) border += `M${l} ${bottom}H${r}`;
      if (j + 1 === m || !inside(i, j + 1)) border += `M${l} ${top}H${r}`;
    }));
    if (border) make("path", { d: border, class: "roi" }, f.inner);
    const E = D.evaluations, others = D.parameters.map(p => p.name).filter(key => key !== a
      && key !== b);
    const points = E.kind.map((kind, i) => {
      const far = others.some(key =>
        Math.abs(along(key).at(E.x[key][i]) - along(key).at(D.point[key])) > 0.15);
      const at = [f.sx(E.x[a][i]), f.sy(E.x[b][i])], node = marks[kinds[kind]](f.front, ...at);
      if (far) node.setAttribute("opacity", 0.35);
      return [...at, i];
    });
    marks.star(f.front, f.sx(D.point[a]), f.sy(D.point[b]));
    f.elsewhere = (px, py) => {
      const i = find(ex, px), j = find(ey, py), k = i * m + j;
      return [`${a} = ${shownAt(a, xs[i])}, ${b} = ${shownAt(b, ys[j])}`,
        `${name}: ${valued(name, value(k))} (modelled)`,
        `feasible with probability ${shown.chance[k]} %`];
    };
    listen(f, points, evaluation);
    const key = document.getElementById("ramp");
    if (key) {
      const stops = [0, 0.25, 0.5, 0.75, 1].map(s => colour(better(s), false)).join(",");
      key.querySelector(".ramp").style.background = `linear-gradient(to right, ${stops})`;
      key.querySelector(".from").textContent = short(field.low);
      key.querySelector(".to").textContent = short(field.high);
    }
  };

  // Left out
  const leftOut = box => {
    box.replaceChildren();
    const known = D.models.filter(m => m.told),
      panels = known.map(() => document.createElement("div"));
    box.append(...panels);
    for (const one of known) {
      const panel = panels[known.indexOf(one)], [mean, lower, upper] = one.left;
      const reach = Math.max(...one.told) - Math.min(...one.told),
        held = v => Math.min(Math.max(v, Math.min(...one.told) - reach), Math.max(...one.told)
        + reach);
      const axis = one.labels ? range(-0.08, 1.08)
        : roomy([...one.told, ...finite(mean).map(held)]);
      const f = frame(panel, axis, axis, {
        label: `${one.name}: told and predicted`, xname: one.labels ? "told (1: met)"
          : `${united(one.name)}, told`,
        yname: one.labels ? `${one.name}: chance from the others`
          : `${united(one.name)}, from the others`, height: 260,
      });
      make("path",
        { d: `M${f.sx(axis.low)} ${f.sy(axis.low)}L${f.sx(axis.high)} ${f.sy(axis.high)}`,
        class: "axis" }, f.inner);
      const points = one.told.map((v, k) => {
        const x = f.sx(v), y = mean[k] === null ? f.top : f.stay(f.sy(mean[k]));
        const ends = [lower[k], upper[k]].map((e, s) => e === null ? (s ? f.top : f.top + f.h)
          : f.stay(f.sy(e)));
        make("path", { d: `M${x} ${ends[0]}V${ends[1]}`, class: "edge" }, f.inner);
        return [x, y, k];
      });
      for (const [x, y] of points) marks.dot(f.inner, x, y);
      listen(f, points, k => [`${one.name}: told ${short(one.told[k], 6)}`,
        `the others say ${short(mean[k], 6)}`,
        `from ${short(lower[k])} to ${short(upper[k])} (±2 sd)`]);
    }
  };

  // Safer
  const safer = box => {
    const levels = D.safer.filter(row => row[1] !== null),
      names = D.safer.map(row => String(+(100 * row[0]).toFixed(1)));
    const place = level => D.safer.findIndex(row => row[0] === level);
    const f = frame(box, choice(names), roomy([...levels.map(row => row[1]),
      D.measured[D.objective]]), {
      label: "The best modelled objective for each chance of feasibility",
      xname: "chance of feasibility, at least (%)", yname: `${united(D.objective)}, best modelled`,
    });
    const points = levels.map(([level, v], k) => [f.sx(place(level)), f.sy(v), k]);
    make("path", { d: path(points), class: "mean" }, f.inner);
    for (const [x, y] of points) marks.dot(f.inner, x, y);
    const told = D.measured[D.objective];
    if (told !== null) make("path", { d: `M${f.left} ${f.sy(told)}h${f.w}`, class: "rug" },
      f.inner);
    listen(f, points, k => [`feasible with probability at least ${names[place(levels[k][0])]} %`,
      `${D.objective}: ${valued(D.objective, levels[k][1])}`], true);
  };

  // All of them, again when the width, the theme or a choice changes
  const drawings = { trace, slices, contours, "left-out": leftOut, safer };
  const boxes = Object.keys(drawings).map(id => document.getElementById(id)).filter(Boolean);
  const draw = box => { hide(); drawings[box.id](box); };
  const all = () => boxes.forEach(draw);
  const seen = new Map();
  const watch = new ResizeObserver(entries => entries.forEach(({ target, contentRect }) => {
    if (Math.abs((seen.get(target) ?? -1) - contentRect.width) < 1) return;
    seen.set(target, contentRect.width);
    requestAnimationFrame(() => draw(target));
  }));
  all();
  boxes.forEach(box => { seen.set(box, box.clientWidth); watch.observe(box); });
  dark.addEventListener("change", all);
  addEventListener("beforeprint", () => { paper = true; all(); });
  addEventListener("afterprint", () => { paper = false; all(); });
  const on = (id, act) => document.getElementById(id)?.addEventListener("change", act);
  on("pick-slice", () => draw(document.getElementById("slices")));
  for (const id of ["pick-pair", "pick-field"]) on(id,
    () => draw(document.getElementById("contours")));
  on("pick-near", event => {
    const box = document.getElementById("trace");
    box.dataset.near = event.target.value;
    draw(box);
  });
  document.addEventListener("keydown", event => { if (event.key === "Escape") hide(); });
})();
