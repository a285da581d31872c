// What a page shows, and in which words: the first half of one function, before page.js.

// The data: a tree in columns, parents before children. What a node holds are eight figures: bytes and blocks that
// live, were freed, lived at the peak, and were temporary; of the newer ledger, and in a comparison of the older one too.
const data = JSON.parse(document.getElementById('data').textContent);
const compared = data.compared !== null;
const THREAD = 2, PROCESS = 4;
const BY = ['live_bytes', 'live_blocks', 'allocated_bytes', 'allocated_blocks', 'freed_bytes', 'freed_blocks',
  'peak_bytes', 'peak_blocks', 'temporary_bytes', 'temporary_blocks'];
const EACH = 8;
const LABEL = ['live bytes', 'live blocks', 'allocated bytes', 'allocations', 'freed bytes', 'frees',
  'peak bytes', 'peak blocks', 'temporary bytes', 'temporary blocks'];
const ROW = 19;
const LEAST = 0.3;
const $ = (id) => document.getElementById(id);
const graph = $('graph'), room = $('room'), canvas = $('canvas'), pen = canvas.getContext('2d');

const figure = (amounts, at, by) => {
  switch (by) {
    case 0: return amounts[at];
    case 1: return amounts[at + 1];
    case 2: return amounts[at] + amounts[at + 2];
    case 3: return amounts[at + 1] + amounts[at + 3];
    case 4: return amounts[at + 2];
    case 5: return amounts[at + 3];
    default: return amounts[at + by - 2];
  }
};

// --- the tree -----------------------------------------------------------------------------------------------
// As it is, and without wrappers, standard libraries and what comes before main: what these hold counts for their callers.
const whole = (() => {
  const count = data.level.length, parent = new Int32Array(count);
  for (let i = 1; i < count; i++) parent[i] = i - data.up[i];
  const spread = (sparse) => {
    const own = new Float64Array(count * EACH);
    const step = EACH + 1;
    for (let i = 0; i < sparse.length; i += step) own.set(sparse.slice(i + 1, i + step), sparse[i] * EACH);
    return own;
  };
  return { parent, level: data.level, file: data.file, line: data.line, flags: data.flags, own: [spread(data.own), spread(data.old)] };
})();
const plumbing = new Uint8Array(data.names.length);
for (const level of data.plumbing) plumbing[level] = 1;
const isTopLevel = (level) => data.kinds[level] === THREAD || data.kinds[level] === PROCESS;
const withoutPlumbing = () => {
  const from = whole, size = from.level.length, place = new Int32Array(size), best = [0], below = new Map();
  const holds = (i) => from.own.some((own) => own.subarray(i * EACH, (i + 1) * EACH).some((figure) => figure > 0));
  const made = { parent: [0], level: [from.level[0]], own: [[], []] };
  const child = (above, i) => {
    const key = above * data.names.length + from.level[i];
    let at = below.get(key);
    if (at === undefined) {
      below.set(key, at = made.level.length);
      made.parent.push(above);
      made.level.push(from.level[i]);
      best.push(i);
    }
    return at;
  };
  for (let i = 0; i < size; i++) {
    const above = i === 0 ? 0 : place[from.parent[i]];
    if (i === 0) place[i] = 0;
    else if (!plumbing[from.level[i]]) place[i] = child(above, i);
    else place[i] = above;
    // Of a stack that would be left out as a whole, the innermost function holds.
    const top = above === 0 || isTopLevel(made.level[above]);
    const holder = i > 0 && plumbing[from.level[i]] && top && holds(i) ? child(above, i) : place[i];
    from.own.forEach((own, side) => {
      for (let k = 0; k < EACH; k++) made.own[side][holder * EACH + k] = (made.own[side][holder * EACH + k] || 0) + own[i * EACH + k];
    });
  }
  const of = (column) => best.map((i) => column[i]);
  return {
    parent: Int32Array.from(made.parent), level: made.level, file: of(from.file), line: of(from.line), flags: of(from.flags),
    own: made.own.map((own) => Float64Array.from({ length: made.level.length * EACH }, (_, i) => own[i] || 0)),
  };
};
const summed = (own, each) => {
  const total = Float64Array.from(own);
  for (let i = count - 1; i > 0; i--) for (let k = 0; k < each; k++) total[parent[i] * each + k] += total[i * each + k];
  return total;
};
let tree, count, parent, own, total, starts, below, reduced = null;
const plant = (all) => {
  tree = all ? whole : (reduced ||= withoutPlumbing());
  ({ parent, own } = tree);
  count = tree.level.length;
  total = own.map((amounts) => summed(amounts, EACH));
  starts = new Int32Array(count + 2);
  below = new Int32Array(Math.max(0, count - 1));
  for (let i = 1; i < count; i++) starts[parent[i] + 2]++;
  for (let i = 2; i < starts.length; i++) starts[i] += starts[i - 1];
  for (let i = 1; i < count; i++) below[starts[parent[i] + 1]++] = i;
};
plant(false);
const isTop = (i) => i === 0 || isTopLevel(tree.level[i]);

// --- what is shown ------------------------------------------------------------------------------------------
const state = { by: 0, width: 'larger', inverted: false, upwards: false, wrappers: false, search: '' };
let root, zoom, hover = null, selected = null, rows = [], pattern = null, matches = null, pending = false;
let widths = null, ownWidths = null;

// Widths add up: a node is as wide as what it holds itself and all below it.
const measure = () => {
  ownWidths = new Float64Array(count);
  for (let i = 0; i < count; i++) {
    const [now, then] = [0, 1].map((side) => figure(own[side], i * EACH, state.by));
    ownWidths[i] = !compared || state.width === 'new' ? now : state.width === 'old' ? then : Math.max(now, then);
  }
  widths = summed(ownWidths, 1);
};

// A node of the view. `at` are nodes of the data; upside down, `ends` are those whose stacks come through here.
const make = (above, level, at, ends) => {
  const node = { above, level, at, ends, depth: above ? above.depth + 1 : 0, kids: null, w: 0, amounts: null };
  if (ends) for (const i of ends) node.w += ownWidths[i];
  else node.w = widths[at[0]];
  return node;
};
const grouped = (above, at, ends) => {
  const groups = new Map();
  for (let i = 0; i < at.length; i++) {
    const level = tree.level[at[i]];
    let group = groups.get(level);
    if (!group) groups.set(level, group = [[], []]);
    group[0].push(at[i]);
    group[1].push(ends[i]);
  }
  return [...groups].map(([level, [at, ends]]) => make(above, level, at, ends));
};
const kids = (node) => {
  if (node.kids) return node.kids;
  if (!node.ends) {
    const first = node.at[0] === 0 ? 0 : starts[node.at[0]];
    node.kids = Array.from(below.subarray(first, starts[node.at[0] + 1]), (i) => make(node, tree.level[i], [i], null));
  } else if (isTop(node.at[0])) {
    // Processes and threads stay on top: of each stack the first of them below this node.
    const tops = new Map(), ends = [];
    for (const i of node.ends) {
      let top = null;
      if (data.byThread || data.byProcess) for (let at = i; at !== node.at[0]; at = parent[at]) if (isTop(at)) top = at;
      if (top === null) {
        if (!isTop(i)) ends.push(i);
      } else if (tops.has(top)) tops.get(top).push(i);
      else tops.set(top, [i]);
    }
    node.kids = [...tops].map(([top, ends]) => make(node, tree.level[top], [top], ends)).concat(grouped(node, ends, ends));
  } else {
    const at = [], ends = [];
    node.at.forEach((i, n) => {
      if (!isTop(parent[i])) {
        at.push(parent[i]);
        ends.push(node.ends[n]);
      }
    });
    node.kids = grouped(node, at, ends);
  }
  node.kids = node.kids.filter((kid) => kid.w > 0).sort((a, b) => b.w - a.w || a.level - b.level);
  return node.kids;
};
const amounts = (node) => {
  if (node.amounts) return node.amounts;
  node.amounts = [0, 1].map((side) => {
    if (!node.ends) return total[side].slice(node.at[0] * EACH, (node.at[0] + 1) * EACH);
    const sum = new Float64Array(EACH);
    for (const i of node.ends) for (let k = 0; k < EACH; k++) sum[k] += own[side][i * EACH + k];
    return sum;
  });
  return node.amounts;
};
const levels = (node) => {
  const path = [];
  for (; node.above; node = node.above) path.push(node.level);
  return path.reverse();
};
const walk = (path) => {
  let node = root;
  for (const level of path) {
    const next = kids(node).find((kid) => kid.level === level);
    if (!next) break;
    node = next;
  }
  return node;
};
// Makes the tree of the view anew; what was zoomed to stays as far as it is there.
const rebuild = (path) => {
  plant(state.wrappers);
  measure();
  const ends = [];
  // Those that have no width now count in the other figures.
  const holds = (i) => own.some((amounts) => amounts.subarray(i * EACH, (i + 1) * EACH).some((figure) => figure > 0));
  if (state.inverted) for (let i = 0; i < count; i++) if (holds(i)) ends.push(i);
  root = make(null, tree.level[0], [0], state.inverted ? ends : null);
  zoom = walk(path);
  hover = selected = null;
};

// --- words --------------------------------------------------------------------------------------------------
const commas = (n) => String(Math.round(n)).replace(/\B(?=(\d{3})+$)/g, ',');
const bytes = (n) => {
  if (data.exactBytes || n < 1024) return `${commas(n)} B`;
  let unit = -1;
  do { n /= 1024; unit++; } while (n >= 1023.5 && unit < 5);
  return `${n.toFixed(n < 9.995 ? 2 : n < 99.95 ? 1 : 0)} ${['KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'][unit]}`;
};
const words = (by, n) => (data.estimated ? '~' : '') + (by % 2 === 0 ? bytes(n) : commas(n));
const share = (part, whole) => {
  const percent = part * 100 / whole;
  if (!(whole > 0) || part === 0) return '0%';
  if (part === whole) return '100%';
  return percent < 0.05 ? '<0.1%' : percent >= 99.95 && percent < 100 ? '>99.9%' : `${percent.toFixed(1)}%`;
};
const change = (by, now, then) => {
  const by_how_much = now === then ? 'unchanged' : `${now > then ? '+' : '−'}${words(by, Math.abs(now - then))}`;
  const span = document.createElement('span');
  span.className = now > then ? 'grown' : now < then ? 'shrunk' : '';
  span.textContent = by_how_much;
  return span;
};
const nameOf = (node) => (node.above ? data.names[node.level] : 'all');
const shortNames = new Map(data.short);
const shortNameOf = (node) => (node.above && shortNames.get(node.level)) || nameOf(node);
const placeOf = (node) => {
  if (!node.above) return '';
  // Upside down several places may lie under one name: the one that most comes through.
  let best = node.at[0];
  if (node.ends) {
    const sums = new Map();
    node.at.forEach((i, n) => sums.set(i, (sums.get(i) || 0) + ownWidths[node.ends[n]]));
    for (const [i, w] of sums) if (w > sums.get(best)) best = i;
  }
  const parts = [];
  if (tree.file[best] >= 0) {
    const line = tree.line[best] > 0 ? `:${tree.line[best]}` : '';
    parts.push(data.files[tree.file[best]] + line + (tree.flags[best] & 2 ? ' and other lines' : ''));
  }
  if (tree.flags[best] & 1) parts.push('inlined');
  const module = data.moduleOf[node.level];
  if (module >= 0) parts.push(`in ${data.modules[module]}`);
  return parts.join(', ');
};
