// --- Knowledge bases

const parts = { ask: "Ask", files: "Files", settings: "Settings", figures: "Statistics" };
const baseOf = (name, rest = "") => "bases/" + encodeURIComponent(name) + rest;
const rough = (n) => (Number.isFinite(n) ? n.toPrecision(4) : String(n)); // a score
const seconds = (ns) => (ns >= 1e9 ? (ns / 1e9).toFixed(1) + " s" : duration(ns));
const counted = (n, one, many = one + "s") => `${number(n)} ${n === 1 ? one : many}`;

let known; // the bases, and what this client may do; null on a server without bases
async function findBases(again) {
  if (known !== undefined && !again) return;
  try {
    known = await api("GET", "bases");
  } catch (e) {
    if (e.status !== 404) throw e;
    known = null;
  }
  if (known && !views.some(([id]) => id === "bases")) views.push(["bases", "Bases"]);
}

function nextBase() {
  if (!known?.bases.length) return;
  const i = known.bases.findIndex((b) => b.name === at.b);
  go({ v: "bases", b: known.bases[(i + 1) % known.bases.length].name, p: at.p === "new" ? "" : at.p });
}

const baseAddress = (b, p, more) => "#" + new URLSearchParams({ v: "bases", ...(b && { b }), ...(p && { p }), ...more });

async function showBases(put, mine) {
  const fresh = at.p === "new" && known.write;
  if (!at.b && !fresh && known.bases.length) at.b = known.bases[0].name;
  const current = known.bases.find((b) => b.name === at.b);
  at.p = fresh || parts[at.p] ? at.p : "ask";
  $("side").setAttribute("aria-label", "Bases");
  fill($("side"), known.bases.map((b) => h("a", { href: baseAddress(b.name, fresh ? "" : at.p), title: b.name, "aria-current": b.name === at.b && "true" }, h("span", null, b.name), b.error && h("span", { class: "bad" }, "!"))),
    !known.bases.length && h("p", { class: "soft" }, "No bases"), known.write && h("a", { href: baseAddress("", "new"), "aria-current": fresh && "true" }, "+ New base"));
  document.title = (current ? current.name + " · " : "") + "Vecbolt";
  if (fresh) return showNewBase(put);
  if (!current) return put(h("h2", null, at.b ? `There is no base ${at.b}.` : "No bases yet"),
    !at.b && h("p", { class: "soft" }, "A base answers questions from files that it has learnt. ", h("code", null, "vecbolt rag learn NAME --path FOLDER"), " makes one."));
  const status = await api("GET", baseOf(at.b));
  if (mine !== turn) return;
  const top = [h("h2", null, at.b, h("span", { class: "soft" }, status.learnt ? `${counted(status.files, "file")} · ${counted(status.chunks, "chunk")}` : "")),
    h("nav", { class: "sub", "aria-label": "Parts of the base" }, Object.entries(parts).map(([p, name]) => h("a", { href: baseAddress(at.b, p), "aria-current": p === at.p && "page" }, name))),
    status.mismatch && h("p", { class: "error" }, status.mismatch.split("\n\n")[0]),
    status.locked && h("p", { class: "error" }, "The base cannot be asked now: " + status.locked + "."),
    status.next && h("p", { class: "soft" }, `It is being embedded again, with ${status.next}.`)];
  await { ask: showAsk, files: showFiles, settings: showSettings, figures: showFigures }[at.p](status, (...content) => put(h("div", { class: at.p === "ask" ? "narrow" : "" }, top, content)), mine);
}

function showNewBase(put) {
  const name = h("input", { name: "name", required: true, id: "first", autocomplete: "off", pattern: "[A-Za-z0-9][A-Za-z0-9._\\-]*" });
  const language = h("input", { name: "language", placeholder: "english", autocomplete: "off" }), out = h("div", { id: "out" });
  put(h("h2", null, "New base"), h("form", { onsubmit: async (e) => {
    e.preventDefault();
    try {
      await api("POST", "bases", { name: name.value, config: language.value ? { language: language.value.trim() } : {} });
      go({ b: name.value, p: "files" });
    } catch (error) { fill(out, failure(error)); }
  } }, h("label", null, "Name", name), h("label", null, "Language of the texts", language), h("button", { class: "main" }, "Create")), out);
}

const failure = (e) => h("p", { class: "error", role: "alert" }, String(e.message ?? e));

// events yields the events of a stream (server-sent events) until the last one.
async function* events(path, body, signal) {
  busy(1);
  let reader;
  try {
    const response = await request("POST", path, { ...body, stream: true }, { signal });
    if (!response.headers.get("Content-Type")?.startsWith("text/event-stream")) return answered(response, await response.text());
    reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let text = ""; ;) {
      const { done, value } = await reader.read();
      if (done) throw new Error("The connection ended before the answer.");
      const all = (text + value).split("\n\n");
      text = all.pop();
      for (const one of all) {
        const [event, data] = one.split("\n").map((line) => line.slice(line.indexOf(": ") + 2));
        const content = JSON.parse(data, exactly);
        if (event === "error") throw new Error(content.error);
        yield [event, content];
        if (event === "answer" || event === "report") return;
      }
    }
  } finally {
    reader?.cancel().catch(() => {});
    busy(-1);
  }
}

// --- Asking

let submittedNow = false; // the address comes from the form: a model may be asked
let streaming; // ends the stream of an answer
const talks = new Map(); // conversations of this page, by base: id, turns
const strategies = ["dense", "text", "hybrid", "mmr", "hyde", "multi-query"], rerankers = ["none", "lexical", "mmr"];

function talkOf(base) {
  if (!talks.has(base)) talks.set(base, { id: "page-" + [...crypto.getRandomValues(new Uint32Array(3))].map((n) => n.toString(36)).join(""), turns: [] });
  return talks.get(base);
}

async function showAsk(status, put, mine) {
  const run = submittedNow, model = status.config.chat_model, out = h("div", { id: "out" });
  submittedNow = false;
  const select = (name, all) => h("select", { name }, h("option", { value: "" }, "as configured"), all.map((v) => h("option", { selected: v === at[name] }, v)));
  const question = h("input", { class: "question", name: "q", id: "first", value: at.q ?? "", required: true, autocomplete: "off", placeholder: "A question, or a few words", "aria-label": "Question" });
  const changed = ["k", "s", "r", "where"].some((name) => at[name]);
  put(h("form", { role: "search", onsubmit: (e) => {
    e.preventDefault();
    submittedNow = true;
    const form = Object.fromEntries([...new FormData(e.target)].map(([k, v]) => [k, v.trim()]));
    go({ ...form, m: e.submitter?.value ?? (model ? "ask" : "search"), b: at.b, p: "ask" });
  } }, question, model && h("button", { class: "main", value: "ask" }, "Ask"), h("button", { class: model ? "" : "main", value: "search" }, "Search"),
    h("details", { open: changed }, h("summary", null, "How to search"), h("div", null,
      h("label", null, "Chunks", h("input", { name: "k", type: "number", min: 1, max: 1000, value: at.k ?? "", placeholder: status.config.top_k || 5 })),
      h("label", null, "Strategy", select("s", strategies)), h("label", null, "Reranker", select("r", rerankers)),
      h("label", { class: "wide" }, "Condition", whereInput()))),
    h("label", { class: "check" }, h("input", { type: "checkbox", name: "talk", value: "1", checked: at.talk === "1" }), "Part of a conversation")), out);
  if (run) question.focus();
  if (!model) out.append(h("p", { class: "soft" }, "Search finds chunks by meaning and words. For answers in sentences, the key chat_model of the configuration names a model."));
  if (!status.learnt && !status.locked) return fill(out, h("p", { class: "soft" }, "This base has learnt nothing yet."));
  if (!at.q || ((at.m === "ask" || at.talk) && !run)) return showTalk(out, at.talk && talkOf(at.b));
  const condition = where(), talk = at.talk && talkOf(at.b);
  const body = { question: at.q, explain: true, ...(at.k && { top_k: Number(at.k) }), ...(at.s && { strategy: at.s }), ...(at.r && { reranker: at.r }),
    ...(condition && { where: condition }), ...(talk && { conversation: talk.id }) };
  if (at.m !== "ask" || !model) {
    fill(out, h("p", { class: "soft" }, "Searching …"));
    const r = await api("POST", baseOf(at.b, "/query"), body);
    if (mine !== turn) return;
    talk?.turns.push({ question: at.q });
    return fill(out, earlier(talk), sources(r), stages(r));
  }
  await askModel(body, talk, out, mine);
}

// askModel shows the answer of the chat model while it writes.
async function askModel(body, talk, out, mine) {
  const answer = h("div", { class: "answer", id: "answer", "aria-live": "polite", "aria-busy": "true" }), rest = h("div");
  fill(out, earlier(talk), h("h3", null, "Answer"), answer, rest);
  streaming = new AbortController();
  try {
    for await (const [event, r] of events(baseOf(at.b, "/ask"), body, streaming.signal)) {
      if (mine !== turn) return;
      if (event === "part") answer.append(r.text);
      else fill(rest, r.answer_cut && h("p", { class: "soft" }, "The answer is cut off: the model stopped before its end (" + r.answer_cut + ")."), sources(r), stages(r));
      if (event === "answer") {
        fill(answer, cited(r.answer, r.citations.length));
        talk?.turns.push({ question: body.question, answer: r.answer });
      }
    }
  } catch (e) {
    if (mine !== turn) return;
    if (answer.textContent) answer.after(failure(e));
    else answer.replaceWith(failure(e));
  } finally {
    answer.setAttribute("aria-busy", "false");
  }
}

// earlier shows the questions before this one.
function earlier(talk) {
  if (!talk?.turns.length) return null;
  return h("details", { id: "earlier" }, h("summary", null, counted(talk.turns.length, "earlier question")),
    talk.turns.map((t) => [h("h3", null, t.question), t.answer && h("p", null, t.answer)]));
}

function showTalk(out, talk) {
  if (!talk?.turns.length) return;
  const list = earlier(talk);
  list.open = true;
  fill(out, list, h("button", { onclick: () => { talks.delete(at.b); show(); } }, "New conversation"));
}

// cited makes a button of each number that the answer cites.
function cited(text, n) {
  return text.split(/(\[\d{1,4}(?:\s*[,;–-]\s*\d{1,4})*\])/).map((part, i) => (i % 2 === 0 ? part
    : part.split(/(\d+)/).map((x, j) => (j % 2 && Number(x) >= 1 && Number(x) <= n ? h("button", { class: "cite", type: "button", "aria-label": "Source " + x, onclick: () => toSource(x) }, x) : x === "[" || x === "]" ? "" : x))));
}

function toSource(n) {
  const card = $("source-" + n);
  card?.scrollIntoView({ block: "nearest", behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
  card?.focus({ preventScroll: true });
}

// sources shows the chunks of an answer. Those of the context have numbers.
function sources(r) {
  if (!r.chunks.length) return h("p", { class: "soft", id: "sources" }, "Nothing was found.");
  const place = new Map(r.citations.map((c) => [c.id, c]));
  const top = Math.max(...r.chunks.map((c) => Math.abs(c.score)), 1e-300);
  return [h("h3", null, counted(r.chunks.length, "chunk")), h("ol", { class: "sources", id: "sources" }, r.chunks.map((c) => {
    const cite = place.get(c.id), used = !r.answer || !cite || r.cited?.includes(cite.number);
    return h("li", { class: "card", tabindex: -1, id: cite && "source-" + cite.number },
      h("div", { class: "row" }, h("span", { class: cite && used ? "badge" : "badge off", title: !cite ? "not in the context" : used ? "" : "in the context, not cited" }, cite ? cite.number : "–"),
        fileLink(c, cite?.source), c.metadata?.header && h("span", { class: "soft" }, c.metadata.header),
        h("span", { class: "score", title: "Score" }, meter(Math.max(0, c.score) / top), h("span", { class: "mono" }, rough(c.score)))),
      clipped(c.text ?? ""));
  }))];
}

function fileLink(chunk, source) {
  const file = chunk.metadata?.source_file;
  return file ? h("a", { href: baseAddress(at.b, "files", { f: file }) }, source ?? file) : h("span", { class: "mono" }, chunk.id);
}

function meter(share) {
  const i = h("i");
  i.style.width = (100 * Math.min(1, share)).toFixed(1) + "%";
  return h("div", { class: "bar" }, i);
}

// clipped shows a text, and its end on demand.
function clipped(text) {
  const p = h("p", null, text.trim());
  if (text.length < 400) return p;
  p.className = "clip";
  return [p, h("button", { type: "button", "aria-expanded": "false", onclick: (e) => {
    const all = p.classList.toggle("clip") === false;
    e.target.setAttribute("aria-expanded", String(all));
    e.target.textContent = all ? "Less" : "All of it";
  } }, "All of it")];
}

const stageNames = { conversation: "Conversation", embed: "Embedding of the question", search: "Search", rerank: "Reranker", expand: "Siblings", context: "Context", answer: "Answer" };

// stages shows what happened on the way to an answer, and why.
function stages(r) {
  const all = r.stages ?? [], longest = Math.max(...all.map((s) => s.ns), 1);
  return all.length > 0 && [h("h3", null, "How it came about"), h("ol", { class: "stages", id: "stages" }, all.map((s) => h("li", null,
    h("div", { class: "row" }, h("strong", null, stageNames[s.name] ?? s.name), h("span", { class: "soft" }, seconds(s.ns))), meter(s.ns / longest), h("p", null, s.about),
    (s.chunks || s.dropped) && h("details", null, h("summary", null, counted(s.chunks?.length ?? 0, "chunk") + (s.dropped ? `, ${number(s.dropped.length)} left out` : "")),
      h("table", null, h("thead", null, h("tr", null, ["", "Chunk", "Score", "Why"].map((t) => h("th", null, t)))), h("tbody", null,
        (s.chunks ?? []).map((c, i) => h("tr", null, h("td", { class: "n" }, i + 1), h("td", { class: "mono" }, c.id), h("td", { class: "mono" }, rough(c.score)), h("td", null, c.why))),
        (s.dropped ?? []).map((c) => h("tr", { class: "soft" }, h("td", { class: "n" }, "–"), h("td", { class: "mono" }, c.id), h("td", { class: "mono" }, rough(c.score)), h("td", null, "Left out: " + c.why)))))))))];
}

// --- Files

async function showFiles(status, put, mine) {
  const out = h("div", { id: "out" }), run = h("div", { id: "run", role: "status" });
  const paths = h("input", { name: "paths", value: ".", required: true, class: "mono", autocomplete: "off" });
  put(known.learn && h("form", { onsubmit: (e) => { e.preventDefault(); learn(status.name, paths.value.split(",").map((p) => p.trim()).filter(Boolean), run, mine); } },
    h("label", { class: "wide" }, "Files and folders to learn, separated by commas, below the folder of the server", paths), h("button", { class: "main", disabled: !!status.learning }, "Learn")), run, out);
  if (status.learning) watch(status, run, mine);
  if (!status.learnt && !status.locked) return fill(out, h("p", { class: "soft" }, "This base has learnt nothing yet."));
  const query = new URLSearchParams({ limit: 100, ...(at.after && { after: at.after }) });
  const [page, unread] = await Promise.all([api("GET", baseOf(at.b, "/files?" + query)), api("GET", baseOf(at.b, "/unread"))]);
  if (mine !== turn) return;
  fill(out, unread.count > 0 && h("details", { id: "unread", open: unread.count <= 20 }, h("summary", { class: "warn" }, counted(unread.count, "file or row was", "files or rows were") + " not read"),
    h("table", null, h("thead", null, h("tr", null, ["File", "Why"].map((t) => h("th", null, t)))), h("tbody", null, unread.unread.map((u) => h("tr", null, h("td", { class: "mono" }, u.file), h("td", null, u.reason)))))),
  h("h3", null, counted(page.total, "learnt file")),
  (at.after || page.next) && h("div", { class: "row" }, h("button", { id: "prev", disabled: !at.after, onclick: () => go({ after: "" }) }, "‹ First"), h("button", { id: "next", disabled: !page.next, onclick: () => go({ after: page.next }) }, "Next ›")),
  h("table", { id: "files" }, h("thead", null, h("tr", null, h("th", null, "File"), h("th", { class: "n" }, "Chunks"))),
    h("tbody", null, page.files.map((f) => h("tr", { tabindex: 0, "data-id": f.name, onclick: (e) => { e.currentTarget.focus(); openFile(f.name); }, onkeydown: (e) => { if (e.key === "Enter") openFile(f.name); } },
      h("td", { class: "mono" }, f.name), h("td", { class: "n" }, number(f.chunks)))))));
  if (at.f) openFile(at.f);
}

async function openFile(name, offset = 0) {
  const mine = turn, body = h("div");
  for (const row of document.querySelectorAll("tr[data-id]")) row.classList.toggle("on", row.dataset.id === name);
  fill($("detail"), h("div", { class: "row spread" }, h("h2", null, name), h("button", { onclick: closeDetail, title: "Escape" }, "Close")), body);
  try {
    const r = await api("GET", baseOf(at.b, `/files/${encodeURIComponent(name)}?` + new URLSearchParams({ offset, limit: 50 })));
    if (mine !== turn) return;
    fill(body, (r.unread ?? []).map((reason) => h("p", { class: "warn" }, reason)),
      h("div", { class: "row" }, h("span", { class: "soft" }, r.total ? `Chunks ${number(offset + 1)} to ${number(offset + r.chunks.length)} of ${number(r.total)}` : "No chunks"),
        offset > 0 && h("button", { onclick: () => openFile(name, Math.max(0, offset - 50)) }, "‹ Before"), offset + 50 < r.total && h("button", { onclick: () => openFile(name, offset + 50) }, "Next ›")),
      r.chunks.map((c) => [h("h3", null, [c.metadata?.page && "Page " + c.metadata.page, c.metadata?.line_number && "Line " + c.metadata.line_number, c.metadata?.header].filter(Boolean).join(" · ") || c.id), h("pre", null, c.text)]));
  } catch (e) {
    fill(body, failure(e));
  }
}

const progressOf = (p) => [h("progress", { "aria-label": "Learning" }), h("p", { class: "soft" }, [p.file, counted(p.files, "file"), `${counted(p.chunks, "chunk")}, ${number(p.embedded)} embedded`, p.seconds.toFixed(0) + " s"].filter(Boolean).join(" · "))];

// learn brings the base up to date. It goes on when another view is shown.
async function learn(name, paths, run, mine) {
  const shown = (...content) => { if (mine === turn) fill(run, content); };
  for (const b of document.querySelectorAll("main form button")) b.disabled = true;
  shown(h("progress", { "aria-label": "Learning" }));
  try {
    for await (const [event, r] of events(baseOf(name, "/learn"), { paths })) {
      if (event === "progress") { shown(progressOf(r)); continue; }
      await show();
      if (at.v === "bases" && at.b === name && at.p === "files") fill($("run"), h("p", { class: "good" }, `Learnt ${counted(r.files, "file")} in ${r.seconds.toFixed(1)} s: ${counted(r.chunks, "chunk")}, ${number(r.embedded)} embedded, ${number(r.skipped)} unchanged, ${number(r.removed)} removed, ${number(r.broken)} broken.`));
    }
  } catch (e) {
    shown(failure(e));
    if (mine === turn) for (const b of document.querySelectorAll("main form button")) b.disabled = false;
  }
}

// watch shows a run that began elsewhere, until it ends.
async function watch(status, run, mine) {
  for (let p = status.learning; p && mine === turn;) {
    fill(run, progressOf(p));
    await new Promise((later) => setTimeout(later, 1000));
    try { p = (await api("GET", baseOf(status.name, "/learn"))).progress; } catch (e) { return fill(run, failure(e)); }
  }
  if (mine === turn) show();
}

// --- Settings

async function showSettings(status, put, mine) {
  const { keys } = await api("GET", baseOf(at.b, "/config"));
  if (mine !== turn) return;
  const written = (v) => (v === undefined || v === null ? "" : typeof v === "object" ? asJSON(v) : String(v));
  const controls = new Map(), out = h("div", { id: "out", role: "status" });
  const differs = (k) => written(k.value) !== written(k.schema.default) && k.name !== "name";
  const list = at.only ? keys.filter(differs) : keys;
  const control = (k) => {
    const s = k.schema ?? {}, value = written(k.value), props = { "aria-label": k.name, name: k.name };
    const choices = s.enum ?? (s.type === "boolean" ? ["true", "false"] : undefined);
    const e = choices ? h("select", props, !choices.includes(value) && h("option", { value: "" }, ""), choices.map((v) => h("option", { selected: v === value }, v)))
      : h("input", { ...props, value, class: "mono", autocomplete: "off", spellcheck: false, placeholder: written(s.default), ...(s.type === "integer" || s.type === "number" ? { type: "number", step: s.type === "integer" ? 1 : "any", ...(s.minimum !== undefined && k.name !== "chunk_overlap" && { min: s.minimum }), ...(s.maximum !== undefined && { max: s.maximum }) } : {}) });
    e.addEventListener("change", () => e.closest("tr").classList.toggle("changed", e.value !== value));
    controls.set(k, e);
    return e;
  };
  // typed returns the value of a control as the configuration has it; null is the default.
  const typed = (k, text) => (text === "" ? null : { integer: Number, number: Number, boolean: (v) => v === "true" }[k.schema.type]?.(text) ?? (k.schema.type === undefined ? JSON.parse(text) : text));
  const save = async (e) => {
    e.preventDefault();
    try {
      const set = {};
      for (const [k, c] of controls) if (c.value !== written(k.value)) {
        try { set[k.name] = typed(k, c.value.trim()); } catch (error) { throw new Error(`${k.name}: ${error.message}`); }
      }
      const names = Object.keys(set);
      if (!names.length) return fill(out, h("p", { class: "soft" }, "Nothing was changed."));
      await api("PATCH", baseOf(at.b, "/config"), set);
      const again = keys.filter((k) => names.includes(k.name) && k.changes.startsWith("with the next learn"));
      await show();
      fill($("out"), h("p", { class: "good" }, "Saved: " + names.join(", ") + "." + (again.length ? " Files are split again when they are learnt next." : "")));
    } catch (error) { fill(out, failure(error)); }
  };
  const editable = (k) => known.write && k.remote;
  put(h("p", null, at.only ? h("a", { href: baseAddress(at.b, "settings") }, "All keys") : h("a", { href: baseAddress(at.b, "settings", { only: 1 }) }, "Only keys that differ from their defaults")),
    h("form", { onsubmit: save }, h("table", { id: "settings" }, h("thead", null, h("tr", null, ["Key", "Value", "Default", "A change takes effect"].map((t) => h("th", null, t)))),
      h("tbody", null, list.map((k) => h("tr", null, h("td", null, h("div", { class: "mono" }, k.name), h("div", { class: "soft" }, k.schema.description)),
        h("td", { class: "mono" }, editable(k) ? control(k) : written(k.value)), h("td", { class: "mono soft" }, written(k.schema.default)), h("td", { class: "soft" }, k.changes))))),
    h("div", { class: "row sticky" }, controls.size > 0 && h("button", { class: "main" }, "Save"), out)));
}

// --- Statistics

async function showFigures(status, put, mine) {
  const { conversations } = await api("GET", baseOf(at.b, "/conversations"));
  if (mine !== turn) return;
  const s = status.stats, c = status.config, out = h("div", { id: "out" });
  const act = (method, path, then) => async () => { try { await api(method, path); then(); } catch (e) { fill(out, failure(e)); } };
  const times = [["Embedding", s.embed_ns], ["Retrieval", s.retrieval_ns], ["Reranker", s.rerank_ns], ["Answer", s.answer_ns]], longest = Math.max(...times.map((t) => t[1]), 1);
  const remove = h("div", { class: "row" }, h("button", { class: "bad", onclick: () => fill(remove, h("span", null, `Delete ${status.name} with all it has learnt?`),
    h("button", { class: "bad", onclick: act("DELETE", baseOf(status.name), () => go({ b: "", p: "" })) }, "Delete"), h("button", { onclick: show }, "Cancel")) }, "Delete the base …"));
  put(facts(["Learnt", status.learnt ? new Date(status.learnt).toLocaleString() : "never"], ["Size", bytes(status.bytes)], ["Embeddings", [c.provider, c.model].filter(Boolean).join(" · ")], ["Dimension", c.embedding?.dimensions || "open"],
    ["Language", c.language || "english"], c.chat_model && ["Chat model", c.chat_model]),
  h("h3", null, "Questions since the server started"),
  facts(["Answered", number(s.queries)], ["Failed", number(s.failures)], ["From the cache", number(s.cache_hits)], ["Embeddings in memory", number(s.embedding_hits)], ["Texts embedded", number(s.embedded_texts)],
    ["Tokens embedded", number(s.embedded_tokens)], ["Tokens of contexts", number(s.context_tokens)], ["Tokens to the model", number(s.prompt_tokens)], ["Tokens of answers", number(s.answer_tokens)], ["Cost", s.cost.toFixed(4)]),
  h("table", { id: "times" }, h("thead", null, h("tr", null, h("th", null, "Stage"), h("th", { class: "n" }, "Time"), h("th", { class: "n" }, "Per question"), h("th", null, ""))),
    h("tbody", null, times.map(([name, ns]) => h("tr", null, h("td", null, name), h("td", { class: "n" }, seconds(ns)), h("td", { class: "n" }, seconds(ns / Math.max(1, s.queries))), h("td", null, meter(ns / longest)))))),
  h("h3", null, "Conversations"),
  conversations.length === 0 ? h("p", { class: "soft" }, "None.") : h("table", { id: "conversations" }, h("thead", null, h("tr", null, h("th", null, "Topic"), h("th", { class: "n" }, "Questions"), h("th", null, "Id"), known.write && h("th", null, ""))),
    h("tbody", null, conversations.map((t) => h("tr", null, h("td", null, t.topic), h("td", { class: "n" }, number(t.questions)), h("td", { class: "mono soft" }, t.id),
      known.write && h("td", { class: "n" }, h("button", { onclick: act("DELETE", baseOf(at.b, "/conversations/" + encodeURIComponent(t.id)), show) }, "forget")))))),
  known.write && [h("h3", null, "Removal"), remove], out);
}

