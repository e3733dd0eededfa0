'use strict';
(() => {
  const {run, checks} = JSON.parse(document.getElementById('data').textContent);
  const OUTCOMES = ['pass', 'fail', 'refused', 'skipped'];
  // Attention, ascending: a cell shows the greatest of its checks.
  const RANK = {skipped: 0, pass: 1, refused: 2, fail: 3};
  const UNEXPECTED = 'unexpected';
  const PAGE = 100;
  const $ = id => document.getElementById(id);

  /** An element with attributes and children; strings become text, never markup. */
  const el = (tag, attributes, ...children) => {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
      if (name === 'onclick') node.addEventListener('click', value);
      else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value);
    }
    node.append(...children.filter(child => child !== null && child !== undefined));
    return node;
  };
  const plural = (n, one, many) => `${n.toLocaleString('en')} ${n === 1 ? one : many}`;
  const duration = ms => ms < 1000 ? `${ms} ms` : ms < 60000 ? `${(ms / 1000).toFixed(1)} s`
    : `${Math.floor(ms / 60000)} min ${Math.floor(ms % 60000 / 1000)} s`;
  const ranges = versions => {
    const parts = [];
    for (let i = 0; i < versions.length; i++) {
      const first = versions[i];
      while (versions[i + 1] === versions[i] + 1) i++;
      parts.push(first === versions[i] ? `${first}` : `${first}–${versions[i]}`);
    }
    return parts.join(', ');
  };

  // Unexpected ones first, else by id: the order in which people want to read.
  checks.sort((a, b) => a.expected - b.expected || (a.id < b.id ? -1 : 1));
  const clients = [...new Set(checks.map(check => check.client))]
    .sort((a, b) => (a !== 'wire') - (b !== 'wire') || a.localeCompare(b));

  const head = () => {
    const unexpected = checks.filter(check => !check.expected).length;
    $('title').textContent = `Kafka compatibility of ${run.target}`;
    const verdict = $('verdict');
    verdict.append(unexpected === 0 ? 'Every outcome is the expected one.'
      : `${plural(unexpected, 'outcome is', 'outcomes are')} unexpected.`);
    verdict.classList.add(unexpected === 0 ? 'good' : 'bad');
    if (unexpected) verdict.append(' ', el('button', {type: 'button', class: 'link', onclick: () => show({outcomes: [UNEXPECTED]})},
      unexpected === 1 ? 'Show it' : 'Show them'));
    const began = new Date(run.started_epoch_ms).toISOString().slice(0, 16).replace('T', ' ');
    $('facts').append(`${run.describes}. ${plural(checks.length, 'check', 'checks')} in ${duration(run.duration_ms)}, ${began} UTC. Repeat with `,
      el('code', null, run.command), run.suite ? `, suite ${run.suite}` : '');
    for (const outcome of OUTCOMES) {
      const n = checks.filter(check => check.outcome === outcome).length;
      const words = {pass: 'pass', fail: 'fail', refused: 'refused as documented', skipped: 'skipped, not run'}[outcome];
      $('counts').append(el('li', null, el('button', {type: 'button', onclick: () => show({outcomes: [outcome]})},
        el('b', null, n.toLocaleString('en')), el('span', null, words))));
    }
    for (const [outcome, words] of [['pass', 'every check passed'], ['refused', 'refused as documented'], ['fail', 'a check failed'], ['none', 'not seen']])
      $('legend').append(el('span', null, el('i', {class: `v ${outcome}`}, '3'), words));
  };

  const grid = () => {
    const rows = new Map();
    for (const window of run.advertised) rows.set(window.key, {name: window.name, window, cells: new Map()});
    for (const check of checks) for (const api of check.apis) {
      if (!rows.has(api.key)) rows.set(api.key, {name: api.name, window: null, cells: new Map()});
      const cells = rows.get(api.key).cells;
      if (!cells.has(check.client)) cells.set(check.client, {n: 0, bad: 0, passed: 0, versions: new Map()});
      const cell = cells.get(check.client);
      cell.n++;
      if (!check.expected) cell.bad++;
      if (check.outcome === 'pass') cell.passed++;
      if (check.outcome === 'skipped') continue;
      for (const version of api.versions) {
        const worst = cell.versions.get(version);
        if (worst === undefined || RANK[check.outcome] > RANK[worst]) cell.versions.set(version, check.outcome);
      }
    }
    const label = client => client === 'wire' ? 'Wire probes' : client;
    // Roles are said although they are a table's own: the phone layout takes them away.
    const cell = (tag, role, attributes, ...children) => el(tag, {role, ...attributes}, ...children);
    const heading = text => cell('th', 'columnheader', {scope: 'col'}, text);
    $('grid').append(el('thead', {role: 'rowgroup'}, cell('tr', 'row', null,
      heading('API'), heading('Advertised'), ...clients.map(client => heading(label(client))))));
    const body = el('tbody', {role: 'rowgroup'});
    const quiet = [];
    for (const [key, row] of [...rows].sort((a, b) => a[0] - b[0])) {
      const seen = [...row.cells.values()].some(cell => cell.bad || cell.versions.size);
      if (!row.window && !seen) {
        if ([...row.cells.values()].some(cell => cell.passed)) quiet.push(key);
        continue;
      }
      const range = row.window ? ranges(Array.from({length: row.window.max - row.window.min + 1}, (_, i) => row.window.min + i)) : 'no';
      body.append(cell('tr', 'row', {'data-key': key},
        cell('th', 'rowheader', {scope: 'row'}, el('span', {class: 'key'}, String(key)), row.name),
        cell('td', 'cell', {class: 'range'}, range),
        ...clients.map(client => cell('td', 'cell', {'data-label': label(client), class: row.cells.has(client) ? null : 'empty'},
          cellOf(key, row, client, label(client))))));
    }
    $('grid').append(body);
    if (quiet.length) $('unadvertised').textContent =
      `Not advertised, and refused as they should be: keys ${ranges(quiet)}.`;
  };

  const cellOf = (key, row, client, label) => {
    const cell = row.cells.get(client);
    if (!cell) return el('span', {class: 'v', 'aria-label': 'no check'}, '–');
    const versions = new Set(cell.versions.keys());
    // Probes are to ask every advertised version: the ones they did not ask show as gaps.
    if (row.window && client === 'wire') for (let v = row.window.min; v <= row.window.max; v++) versions.add(v);
    const ordered = [...versions].sort((a, b) => a - b);
    const words = ordered.map(v => `version ${v} ${cell.versions.get(v) || 'not seen'}`).join(', ');
    return el('button', {type: 'button', class: 'cell', onclick: () => show({api: String(key), client}),
      'aria-label': `${row.name}, ${label}: ${plural(cell.n, 'check', 'checks')}${cell.bad ? `, ${cell.bad} unexpected` : ''}. ${words}`},
      el('span', {class: 'vs', 'aria-hidden': 'true'}, ...ordered.map(v => el('i', {class: `v ${cell.versions.get(v) || 'none'}`}, String(v)))),
      el('span', {class: 'n', 'aria-hidden': 'true'}, `${plural(cell.n, 'check', 'checks')}${cell.bad ? `, ${cell.bad} unexpected` : ''}`));
  };

  const controls = () => {
    const apis = new Map();
    for (const check of checks) for (const api of check.apis) apis.set(api.key, api.name);
    $('api').append(el('option', {value: ''}, 'all'),
      ...[...apis].sort((a, b) => a[0] - b[0]).map(([key, name]) => el('option', {value: key}, `${key} ${name}`)));
    $('client').append(el('option', {value: ''}, 'all'), ...clients.map(client => el('option', {value: client}, client)));
    $('outcomes').append(el('div', null, ...[...OUTCOMES, UNEXPECTED].map(outcome => el('label', null,
      el('input', {type: 'checkbox', name: 'outcome', value: outcome}), el('span', null, outcome)))));
    $('filter').addEventListener('input', update);
    $('filter').addEventListener('submit', event => event.preventDefault());
    $('reset').addEventListener('click', () => { show({}); $('text').focus(); });
    $('more').addEventListener('click', more);
  };

  const boxes = () => [...document.querySelectorAll('#outcomes input')];
  const chosen = () => ({
    text: $('text').value.trim().toLowerCase(),
    api: $('api').value,
    client: $('client').value,
    outcomes: boxes().filter(box => box.checked).map(box => box.value),
  });

  /** Sets the filter and goes to the list. */
  const show = ({text = '', api = '', client = '', outcomes = []}) => {
    $('text').value = text;
    $('api').value = api;
    $('client').value = client;
    for (const box of boxes()) box.checked = outcomes.includes(box.value);
    update();
    $('checks').scrollIntoView();
  };

  const haystack = check => check.hay ??= [check.id, check.title, check.client, check.reason || '',
    check.evidence.difference ? check.evidence.difference.path : '',
    ...check.apis.map(api => api.name), ...check.kips.map(kip => `kip-${kip}`)].join('\n').toLowerCase();

  let found = [];
  let shown = 0;

  const update = () => {
    const filter = chosen();
    const words = filter.text.split(/\s+/).filter(Boolean);
    found = checks.filter(check =>
      (filter.outcomes.length === 0 || filter.outcomes.includes(check.outcome) ||
        (!check.expected && filter.outcomes.includes(UNEXPECTED))) &&
      (filter.client === '' || check.client === filter.client) &&
      (filter.api === '' || check.apis.some(api => String(api.key) === filter.api)) &&
      words.every(word => haystack(check).includes(word)));
    const all = found.length === checks.length;
    $('found').textContent = all ? plural(found.length, 'check', 'checks')
      : `${found.length.toLocaleString('en')} of ${plural(checks.length, 'check', 'checks')}`;
    $('reset').hidden = all;
    $('list').replaceChildren();
    shown = 0;
    more();
    const link = new URLSearchParams();
    if (filter.text) link.set('text', filter.text);
    if (filter.api) link.set('api', filter.api);
    if (filter.client) link.set('client', filter.client);
    if (filter.outcomes.length) link.set('outcome', filter.outcomes.join(','));
    history.replaceState(null, '', link.size ? `#${link}` : location.pathname + location.search);
  };

  const more = () => {
    const next = found.slice(shown, shown + PAGE);
    $('list').append(...next.map(item));
    shown += next.length;
    const left = found.length - shown;
    $('more').hidden = left === 0;
    $('more').textContent = `Show ${Math.min(left, PAGE)} more of ${left.toLocaleString('en')}`;
  };

  const item = check => {
    const odd = check.expected ? '' : ' odd';
    const details = el('details', {'data-id': check.id},
      el('summary', null,
        el('span', {class: `o ${check.outcome}${odd}`}, check.outcome, check.expected ? '' : el('span', {class: 'sr'}, ', unexpected')),
        el('span', {class: 't'}, check.title, el('small', null, check.id),
          check.reason ? el('em', null, check.reason) : null),
        el('span', {class: 'ms'}, duration(check.duration_ms))));
    // Evidence is drawn when it is asked for: most never is.
    details.addEventListener('toggle', () => {
      if (details.open && details.childElementCount === 1) details.append(evidenceOf(check));
    });
    return el('li', null, details);
  };

  const evidenceOf = check => {
    const {difference, exchanges = [], facts = {}, diagram, log = []} = check.evidence;
    const box = el('div', {class: 'evidence'});
    const about = el('dl');
    const fact = (name, ...value) => about.append(el('dt', null, name), el('dd', null, ...value));
    fact('Client', check.client, ' ', el('a', {href: `#check=${encodeURIComponent(check.id)}`, class: 'permalink'}, 'link to this check'));
    if (check.apis.length) fact('On the wire', check.apis.map(api =>
      `${api.name} (${api.key})${api.versions.length ? ` v${ranges(api.versions)}` : ''}`).join(', '));
    if (check.kips.length) fact('About', check.kips.map(kip => `KIP-${kip}`).join(', '));
    if (check.observed?.length) fact('As seen of', `Apache Kafka ${check.observed.join(', ')}`);
    for (const [name, value] of Object.entries(facts)) fact(name, typeof value === 'string' ? value : JSON.stringify(value));
    box.append(about);
    if (difference) box.append(el('div', {class: 'diff'}, el('h3', null, 'First differing field'),
      el('dl', null, el('dt', null, 'field'), el('dd', null, el('code', null, difference.path)),
        el('dt', null, 'expected'), el('dd', null, el('code', null, difference.expected)),
        el('dt', null, 'got'), el('dd', null, el('code', null, difference.got)))));
    // The field is that of the last answer that has it: what came before was as expected.
    const differing = difference ? exchanges.findLastIndex(exchange => has(exchange.received.frame, difference.path)) : -1;
    exchanges.forEach((exchange, at) => box.append(exchangeOf(exchange, at === differing ? difference : null)));
    // As an image, a drawing can run nothing and ask for nothing.
    if (diagram) box.append(el('div', {class: 'diagram', tabindex: '0', role: 'region', 'aria-label': 'Sequence diagram'}, el('h3', null, 'What happened'),
      el('img', {alt: 'Sequence diagram of the run; the log below says the same in words', src: `data:image/svg+xml;charset=utf-8,${encodeURIComponent(diagram)}`})));
    if (log.length) box.append(el('div', null, el('h3', null, 'Log'), el('pre', null, log.join('\n'))));
    return box;
  };

  /** Whether a frame was decoded and has a field at this path: `Topics[0].ErrorCode`. */
  const has = (frame, path) => {
    let at = frame && frame.decoded;
    for (const step of path.split(/[.[]/)) {
      const name = step.endsWith(']') ? step.slice(0, -1) : step;
      if (at === null || typeof at !== 'object' || !Object.hasOwn(at, name)) return false;
      at = at[name];
    }
    return true;
  };

  const exchangeOf = (exchange, difference) => {
    const {frame, closed, nothing} = exchange.received;
    const answer = frame ? frameOf('Received', frame, difference)
      : el('div', {class: 'side'}, el('p', null, closed !== undefined ? 'Connection' : 'Received'), el('pre', null, closed !== undefined ? closed : nothing));
    return el('div', {class: 'exchange'},
      el('header', null, el('b', null, exchange.what), el('span', null, duration(exchange.after_ms))),
      el('div', {class: 'sides'}, frameOf('Sent', exchange.sent, null), answer));
  };

  const frameOf = (name, frame, difference) => {
    const side = el('div', {class: 'side'}, el('p', null, `${name}, ${plural(frame.bytes, 'byte', 'bytes')}`));
    if (frame.decoded !== undefined) {
      const lines = el('pre', {tabindex: '0', 'aria-label': `${name}, decoded`});
      render(lines, frame.decoded, '', '', difference ? difference.path : null);
      side.append(lines);
    }
    side.append(el('pre', {class: 'hex', 'aria-label': `${name}, first bytes`}, frame.hex.replace(/(..)(?=.)/g, '$1 ')));
    return side;
  };

  /** Writes JSON with the field at `wanted` marked. */
  const render = (into, value, path, indent, wanted) => {
    const marked = wanted !== null && path === wanted && path !== '';
    const target = marked ? into.appendChild(el('mark')) : into;
    if (value === null || typeof value !== 'object') { target.append(JSON.stringify(value)); return; }
    const list = Array.isArray(value);
    const entries = Object.entries(value);
    if (entries.length === 0) { target.append(list ? '[]' : '{}'); return; }
    target.append(list ? '[' : '{');
    entries.forEach(([name, child], at) => {
      target.append(`\n${indent}  `);
      if (!list) target.append(`${name}: `);
      render(target, child, list ? `${path}[${name}]` : path === '' ? name : `${path}.${name}`, `${indent}  `, wanted);
      if (at < entries.length - 1) target.append(list ? ',' : '');
    });
    target.append(`\n${indent}${list ? ']' : '}'}`);
  };

  head();
  grid();
  controls();
  const link = new URLSearchParams(location.hash.slice(1));
  const linked = link.get('check');
  if (link.size) show({text: link.get('text') || '', api: link.get('api') || '', client: link.get('client') || '',
    outcomes: (link.get('outcome') || '').split(',').filter(Boolean)});
  else update();
  // A link to one check opens it.
  const one = checks.find(check => check.id === linked);
  if (one) {
    show({text: one.id});
    const opened = [...document.querySelectorAll('details')].find(details => details.dataset.id === one.id);
    if (opened) opened.open = true;
  }
})();
