// How a page is drawn, and what it does when it is told: the second half of one function, after model.js.

// --- colours ------------------------------------------------------------------------------------------------
const dark = matchMedia('(prefers-color-scheme: dark)');
// Boxes of the bar, and what they are called in the page's address.
const VIEWS = ['inverted', 'upwards', 'wrappers'];
// Buttons below the curve, and the metric of each. Without a curve there are none.
const MOMENTS = [['to-peak', 6], ['to-end', 0]];
// Modules in the legend.
const LEGEND = 6;
const HUES = [28, 205, 140, 265, 50, 175, 335, 95, 230, 5];
let colours = new Map();
// The largest change of one function within what is zoomed to: below that are its parts.
let greatest = 0;
const weigh = () => {
  greatest = 0;
  if (!compared) return;
  for (let i = 1; i < count; i++) {
    const [now, then] = total.map((amounts) => figure(amounts, i * EACH, state.by));
    greatest = Math.max(greatest, Math.abs(now - then));
  }
};
const hueOf = (module) => HUES[module % HUES.length];
const mix = (from, to, part) => from.map((c, i) => Math.round(c + (to[i] - c) * part));
const colour = (node) => {
  if (compared) {
    const [now, then] = amounts(node).map((a) => figure(a, 0, state.by));
    // By how much, of the largest change of all: so what has grown by much stands out from what has grown by little.
    const part = greatest > 0 ? (now - then) / greatest : 0;
    const [neutral, grown, shrunk] = dark.matches
      ? [[58, 63, 70], [176, 52, 44], [44, 98, 190]] : [[226, 229, 233], [236, 92, 78], [92, 146, 236]];
    // A little is seen as a little, but seen.
    const strength = part === 0 ? 0 : 0.12 + 0.88 * Math.min(1, Math.abs(part));
    return `rgb(${mix(neutral, part > 0 ? grown : shrunk, strength)})`;
  }
  let known = colours.get(node.level);
  if (known) return known;
  const module = data.moduleOf[node.level];
  let hash = 7;
  for (const letter of data.names[node.level] || '') hash = (hash * 31 + letter.codePointAt(0)) % 9973;
  const shade = hash % 5;
  if (module < 0) known = dark.matches ? `hsl(215 8% ${30 + shade}%)` : `hsl(215 14% ${82 + shade}%)`;
  else {
    const hue = hueOf(module) + (hash % 9) - 4;
    known = dark.matches ? `hsl(${hue} 38% ${27 + shade * 2}%)` : `hsl(${hue} 72% ${71 + shade * 2.5}%)`;
  }
  colours.set(node.level, known);
  return known;
};

// --- drawing ------------------------------------------------------------------------------------------------
const lay = (wide) => {
  rows = [];
  const put = (node, left, right) => {
    (rows[node.depth] ||= []).push({ node, left, right });
  };
  const above = [];
  for (let node = zoom.above; node; node = node.above) above.push(node);
  above.reverse().forEach((node) => put(node, 0, 1));
  const waiting = [[zoom, 0, 1]];
  while (waiting.length) {
    const [node, left, right] = waiting.pop();
    put(node, left, right);
    const scale = (right - left) / node.w;
    let x = left;
    for (const kid of kids(node)) {
      const part = kid.w * scale;
      // The greatest comes first: all others are too small as well.
      if (!(part * wide >= LEAST)) break;
      waiting.push([kid, x, x + part]);
      x += part;
    }
  }
  for (const row of rows) row.sort((a, b) => a.left - b.left);
};
const heightOf = () => Math.max(rows.length * ROW + 2, graph.clientHeight);
const yOf = (depth) => (state.upwards ? heightOf() - (depth + 1) * ROW - 1 : depth * ROW + 1);

const draw = () => {
  pending = false;
  const wide = graph.clientWidth, high = graph.clientHeight, dpr = window.devicePixelRatio || 1;
  lay(wide);
  room.style.height = `${heightOf()}px`;
  if (canvas.width !== Math.round(wide * dpr) || canvas.height !== Math.round(high * dpr)) {
    canvas.width = Math.round(wide * dpr);
    canvas.height = Math.round(high * dpr);
    canvas.style.height = `${high}px`;
  }
  pen.setTransform(dpr, 0, 0, dpr, 0, 0);
  pen.clearRect(0, 0, wide, high);
  const light = getComputedStyle(document.body);
  const fore = light.getPropertyValue('--fore'), faint = light.getPropertyValue('--faint');
  const mark = light.getPropertyValue('--mark');
  pen.font = '12px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace';
  pen.textBaseline = 'middle';
  if (!(root.w > 0)) {
    pen.fillStyle = faint;
    pen.fillText(`Nothing to see: ${LABEL[state.by]} are 0.`, 12, 24);
    return;
  }
  const letter = pen.measureText('M').width;
  const scroll = graph.scrollTop;
  rows.forEach((row, depth) => {
    const y = yOf(depth) - scroll;
    if (y + ROW < 0 || y > high) return;
    for (const { node, left, right } of row) {
      const x = left * wide, w = (right - left) * wide;
      const match = matches !== null && node.above && matches[node.level];
      pen.globalAlpha = node.depth < zoom.depth ? 0.55 : matches !== null && !match ? 0.5 : 1;
      pen.fillStyle = match ? (dark.matches ? '#b13fd0' : '#a21caf') : colour(node);
      // A gap between neighbours as long as there is room for one.
      pen.fillRect(x, y, w > 3 ? w - 1 : w, ROW - 1);
      pen.globalAlpha = node.depth < zoom.depth ? 0.8 : 1;
      const letters = Math.floor((w - 7) / letter);
      if (letters >= 3) {
        let text = shortNameOf(node);
        if (text.length > letters) text = `${text.slice(0, letters - 1)}…`;
        pen.fillStyle = match ? '#fff' : fore;
        pen.fillText(text, x + 3, y + ROW / 2);
      }
      if (node === hover || node === selected) {
        pen.globalAlpha = 1;
        pen.strokeStyle = node === selected ? mark : fore;
        pen.lineWidth = node === selected ? 2 : 1;
        pen.strokeRect(x + 0.75, y + 0.75, Math.max(1, w - 2), ROW - 2.5);
      }
    }
  });
  pen.globalAlpha = 1;
};
const redraw = () => {
  if (!pending) {
    pending = true;
    requestAnimationFrame(draw);
  }
};

// --- words around it ----------------------------------------------------------------------------------------
const put = (tag, text, into, name) => {
  const element = document.createElement(tag);
  if (text instanceof Node) element.append(text);
  else element.textContent = text;
  if (name) element.className = name;
  into.append(element);
  return element;
};
// Figures of the peak and of temporary blocks are not known of every ledger.
const isThere = (by) => by < 6 || total.some((all) => figure(all, 0, by) > 0);
const partOf = (by) => by > 1 && by < 6 && data.parts ? data.parts[(by >> 1) - 1] : '';
const tell = () => {
  const node = hover || selected || zoom;
  const detail = $('detail');
  detail.replaceChildren();
  const what = put('div', '', detail, 'what');
  put('div', nameOf(node), what, 'name');
  const place = placeOf(node);
  if (place) put('div', place, what, 'place');
  const table = put('table', '', detail);
  const [now, then] = amounts(node), [allNow, allThen] = amounts(root);
  const heads = compared ? ['', data.compared[0], data.compared[1], 'change'] : ['', 'bytes', 'blocks'];
  const head = put('tr', '', table);
  heads.forEach((text) => put('th', text, head));
  const line = (by, cells) => {
    const row = put('tr', '', table, (compared ? by : by & ~1) === (compared ? state.by : state.by & ~1) ? 'on' : '');
    cells.forEach((text, i) => put(i === 0 ? 'th' : 'td', text, row));
    // What would look whole and is of a part says so right there.
    if (partOf(by)) put('small', partOf(by), row.firstChild);
  };
  if (compared) {
    const by = state.by;
    for (const one of [by, by ^ 1]) {
      const [a, b] = [figure(then, 0, one), figure(now, 0, one)];
      const of = (n, all) => `${words(one, n)} (${share(n, figure(all, 0, one))})`;
      line(one, [LABEL[one], of(a, allThen), of(b, allNow), change(one, b, a)]);
    }
  } else {
    for (const by of [0, 2, 4, 6, 8]) {
      if (!isThere(by)) continue;
      const cell = (one) => `${words(one, figure(now, 0, one))} (${share(figure(now, 0, one), figure(allNow, 0, one))})`;
      line(by, [LABEL[by].split(' ')[0], cell(by), cell(by + 1)]);
    }
  }
};
const head = () => {
  const [now, then] = amounts(root);
  const by = state.by & ~1, kind = LABEL[by].split(' ')[0], what = kind === 'peak' ? 'at the peak' : kind;
  const all = (a) => `${words(by, figure(a, 0, by))} in ${words(by + 1, figure(a, 0, by + 1))} blocks`;
  const part = partOf(by) && `, ${partOf(by)}`;
  const text = compared
    ? `${what}${part}: ${all(then)} in ${data.compared[0]}; ${all(now)} in ${data.compared[1]}` : `${all(now)} ${what}${part}`;
  $('total').textContent = by > 0 && data.gap ? `${text}. ${data.gap}` : text;
  $('by').value = BY[state.by];
  $('width').value = state.width;
  for (const [id, by] of MOMENTS) $(id)?.setAttribute('aria-pressed', String((state.by & ~1) === by));
  for (const key of VIEWS) $(key).checked = state[key];
  $('reset').disabled = zoom === root && !state.search;
  const path = $('path'), inner = document.createElement('bdi');
  path.replaceChildren(inner);
  const above = [];
  for (let node = zoom; node; node = node.above) above.push(node);
  if (zoom === root) inner.textContent = 'Click a function to zoom in.';
  else {
    above.reverse().forEach((node, i) => {
      if (i > 0) inner.append(state.inverted ? ' ← ' : ' → ');
      const link = put(node === zoom ? 'b' : 'a', shortNameOf(node), inner);
      if (node !== zoom) link.onclick = () => zoomTo(node);
    });
  }
  const found = $('found');
  if (matches === null) found.textContent = '';
  else {
    // Stacks in which a match occurs, each once.
    const inside = new Uint8Array(count);
    const shown = new Set();
    let sum = 0;
    for (let i = 1; i < count; i++) {
      if (matches[tree.level[i]]) shown.add(tree.level[i]);
      inside[i] = inside[parent[i]] || matches[tree.level[i]];
      if (inside[i] && !inside[parent[i]]) sum += widths[i];
    }
    const functions = shown.size;
    found.textContent = functions === 0 ? 'no match'
      : `${commas(functions)} ${functions === 1 ? 'function' : 'functions'}, ${words(state.by, sum)} (${share(sum, widths[0])})`;
  }
  tell();
  redraw();
};

// What is drawn in which colour; of modules those that hold most.
const legend = () => {
  const list = $('legend');
  list.replaceChildren();
  const entry = (paint, text) => {
    const item = put('span', '', list);
    put('i', '', item).style.background = paint;
    item.append(text);
  };
  if (compared) {
    entry('rgb(236, 92, 78)', 'grown');
    entry('rgb(92, 146, 236)', 'shrunk');
    list.append('deeper: by more');
    return;
  }
  data.modules.slice(0, LEGEND).forEach((name, module) => {
    entry(dark.matches ? `hsl(${hueOf(module)} 38% 31%)` : `hsl(${hueOf(module)} 72% 76%)`, name.replace(/^.*\//, ''));
  });
  if (data.modules.length > LEGEND) list.append(`and ${commas(data.modules.length - LEGEND)} more`);
};

// --- the address of the page holds what is shown --------------------------------------------------------------
const address = () => {
  const parts = new URLSearchParams();
  if (zoom !== root) parts.set('zoom', levels(zoom).join('.'));
  if (state.search) parts.set('search', state.search);
  if (BY[state.by] !== data.view.by) parts.set('by', BY[state.by]);
  for (const key of VIEWS) if (state[key] !== data.view[key]) parts.set(key, state[key] ? '1' : '0');
  if (state.width !== 'larger') parts.set('width', state.width);
  return parts.toString();
};
const note = (push) => {
  const text = `#${address()}`;
  if (text === (location.hash || '#')) return;
  history[push ? 'pushState' : 'replaceState'](null, '', text);
};
const seek = (name) => {
  // A name instead of a path: the widest place of this function.
  let best = 0;
  for (let i = 1; i < count; i++) if (data.names[tree.level[i]] === name && (best === 0 || widths[i] > widths[best])) best = i;
  if (best === 0) return [];
  if (state.inverted) return [tree.level[best]];
  const path = [];
  for (let i = best; i !== 0; i = parent[i]) path.push(tree.level[i]);
  return path.reverse();
};
const viewed = () => [state.by, state.width, ...VIEWS.map((key) => state[key])].join();
const arrive = () => {
  const before = root ? viewed() : '';
  const parts = new URLSearchParams(location.hash.slice(1));
  const by = BY.indexOf(parts.get('by') ?? data.view.by);
  state.by = by < 0 ? 0 : by;
  for (const key of VIEWS) state[key] = parts.has(key) ? parts.get(key) === '1' : data.view[key];
  state.width = ['new', 'old'].includes(parts.get('width')) ? parts.get('width') : 'larger';
  state.search = parts.get('search') ?? '';
  $('search').value = state.search;
  // On the way back nearly always only what is zoomed to is another.
  if (viewed() !== before) {
    rebuild([]);
    weigh();
  }
  const wanted = parts.get('zoom') ?? '';
  const path = /^[\d.]*$/.test(wanted) ? wanted.split('.').filter(Boolean).map(Number) : seek(wanted);
  zoom = walk(path.filter((level) => state.wrappers || !plumbing[level]));
  find();
  head();
  if (state.upwards) redrawAtEnd();
};
const redrawAtEnd = () => {
  draw();
  graph.scrollTop = state.upwards ? graph.scrollHeight : 0;
  redraw();
};

// The least that a reader wants to know, beside the pointer.
const tip = (event) => {
  const box = $('tip');
  box.hidden = !hover || event.pointerType === 'touch';
  if (box.hidden) return;
  const [now, then] = amounts(hover).map((a) => figure(a, 0, state.by));
  const all = figure(amounts(root)[0], 0, state.by);
  box.replaceChildren();
  put('b', nameOf(hover), box);
  const place = placeOf(hover);
  if (place) put('span', place, box);
  const line = put('span', `${words(state.by, now)} ${LABEL[state.by]} (${share(now, all)})`, box);
  if (compared) line.append(', ', change(state.by, now, then));
  // Beside the pointer, and within the page.
  const wide = document.documentElement.clientWidth, high = document.documentElement.clientHeight;
  const left = event.clientX + 14, top = event.clientY + 18;
  box.style.left = `${Math.max(4, left + box.offsetWidth > wide ? event.clientX - box.offsetWidth - 10 : left)}px`;
  box.style.top = `${Math.max(4, top + box.offsetHeight > high ? event.clientY - box.offsetHeight - 12 : top)}px`;
};

// --- what a reader does ---------------------------------------------------------------------------------------
const zoomTo = (node) => {
  zoom = node;
  hover = null;
  selected = node;
  note(true);
  head();
  show(node);
};
const find = () => {
  const text = state.search, slashed = /^\/(.+)\/$/.exec(text);
  pattern = null;
  let valid = true;
  try {
    if (text) pattern = new RegExp(slashed ? slashed[1] : text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'), 'iu');
  } catch {
    valid = false;
  }
  $('search').setAttribute('aria-invalid', String(!valid));
  matches = pattern && Uint8Array.from(data.names, (name, i) => (i > 0 && pattern.test(name) ? 1 : 0));
};
const turn = (set) => {
  const path = levels(zoom), inverted = state.inverted;
  Object.assign(state, set);
  // Functions that are left out now are none of the path any more.
  rebuild(state.inverted === inverted ? path.filter((level) => state.wrappers || !plumbing[level]) : []);
  weigh();
  find();
  note(false);
  head();
  if ('upwards' in set || 'inverted' in set || 'wrappers' in set) redrawAtEnd();
};
const show = (node) => {
  const y = yOf(node.depth);
  if (y < graph.scrollTop) graph.scrollTop = y;
  else if (y + ROW > graph.scrollTop + graph.clientHeight) graph.scrollTop = y + ROW - graph.clientHeight;
};
const hit = (event) => {
  const box = graph.getBoundingClientRect();
  const x = (event.clientX - box.left) / graph.clientWidth, y = event.clientY - box.top - graph.clientTop + graph.scrollTop;
  const depth = Math.floor((state.upwards ? heightOf() - y : y - 1) / ROW);
  const row = rows[depth] ?? [];
  let low = 0, high = row.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (row[middle].right <= x) low = middle + 1;
    else high = middle;
  }
  return low < row.length && row[low].left <= x ? row[low].node : null;
};
canvas.addEventListener('pointermove', (event) => {
  const node = hit(event);
  if (node !== hover) {
    hover = node;
    tell();
    redraw();
  }
  tip(event);
});
canvas.addEventListener('pointerleave', () => {
  hover = null;
  $('tip').hidden = true;
  tell();
  redraw();
});
canvas.addEventListener('click', (event) => {
  const node = hit(event);
  if (node) zoomTo(node);
});
graph.addEventListener('scroll', redraw);
// What comes first stays in sight, wherever it is.
new ResizeObserver(() => (state.upwards ? redrawAtEnd() : redraw())).observe(graph);
dark.addEventListener('change', () => {
  colours = new Map();
  legend();
  redraw();
});
$('bar').addEventListener('submit', (event) => event.preventDefault());
$('by').addEventListener('change', (event) => turn({ by: BY.indexOf(event.target.value) }));
$('width').addEventListener('change', (event) => turn({ width: event.target.value }));
for (const key of VIEWS) $(key).addEventListener('change', (event) => turn({ [key]: event.target.checked }));
const reset = () => {
  state.search = $('search').value = '';
  find();
  selected = null;
  zoom = root;
  note(true);
  head();
};
$('reset').addEventListener('click', reset);
$('search').addEventListener('input', (event) => {
  state.search = event.target.value;
  find();
  note(false);
  head();
});
const move = (key) => {
  const node = selected || zoom;
  const inwards = state.upwards ? 'ArrowUp' : 'ArrowDown';
  let next = null;
  if (key === 'ArrowUp' || key === 'ArrowDown') next = key === inwards ? kids(node)[0] : node.above;
  else if (node.above && node.depth > zoom.depth) {
    const beside = kids(node.above);
    next = beside[beside.indexOf(node) + (key === 'ArrowRight' ? 1 : -1)];
  }
  if (!next) return;
  selected = next;
  hover = null;
  // What is above the zoomed one is only there to lead back.
  if (next.depth < zoom.depth) zoom = next;
  head();
  show(next);
};
document.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const field = event.target.closest('input[type=search], select');
  if (event.key === 'Escape') {
    // Out of a search first, then out of all.
    if (state.search) turn({ search: $('search').value = '' });
    else reset();
    graph.focus();
  } else if (field) {
    if (event.key === 'Enter' && field.id === 'search') graph.focus();
    return;
  } else if (event.key === '/') {
    $('search').focus();
    $('search').select();
  } else if (event.key.startsWith('Arrow')) {
    if (event.target !== graph && event.target !== document.body) return;
    move(event.key);
  } else if (event.key === 'Enter') {
    if (event.target !== graph && event.target !== document.body) return;
    zoomTo(selected || zoom);
  } else if (event.key === 'Backspace') {
    if (zoom.above) zoomTo(zoom.above);
  } else if (event.key === 'i') turn({ inverted: !state.inverted });
  else if (event.key === 'f') turn({ upwards: !state.upwards });
  else if (event.key === 's') turn({ wrappers: !state.wrappers });
  else if (/^[1-9]$/.test(event.key)) isThere(Number(event.key) - 1) && turn({ by: Number(event.key) - 1 });
  else return;
  event.preventDefault();
});
window.addEventListener('hashchange', arrive);

BY.forEach((name, i) => {
  if (!isThere(i)) return;
  const option = put('option', LABEL[i], $('by'));
  option.value = name;
});
for (const [id, by] of MOMENTS) {
  const button = $(id);
  if (!button) continue;
  button.disabled = !isThere(by);
  // Bytes or blocks, as it was.
  button.addEventListener('click', () => turn({ by: by + (state.by & 1) }));
}
$('across').hidden = !compared;
legend();
arrive();
