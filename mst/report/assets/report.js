"use strict";
(() => {
  const index = JSON.parse(document.getElementById("index").textContent);
  const PAGE = 150;
  const OUTCOMES = {
    p: ["passed", "\u2713", "pass"], f: ["failed", "\u2717", "fail"], i: ["infrastructure failure", "!", "none"],
    m: ["missing", "?", "none"], g: ["grading error", "*", "none"], u: ["ungraded", "\u2013", "none"],
    n: ["nothing to score", "\u00b7", "none"],
  };
  const FLIPS = { regression: "regression", down: "down", up: "up" };
  const $ = (id) => document.getElementById(id);

  // Text goes into the page as text only: every element is made here, and none from a string of markup.
  const el = (name, options = {}, ...children) => {
    const node = document.createElement(name);
    for (const [key, value] of Object.entries(options)) {
      if (value === undefined || value === null || value === false) continue;
      if (key === "class") node.className = value;
      else if (key === "on") for (const [event, run] of Object.entries(value)) node.addEventListener(event, run);
      else node.setAttribute(key, value === true ? "" : value);
    }
    for (const child of children.flat(Infinity)) {
      if (child !== null && child !== undefined && child !== "") node.append(child);
    }
    return node;
  };
  const count = (n, noun) => `${n.toLocaleString("en")} ${noun}${n === 1 ? "" : "s"}`;

  // ---- details, in the page or in scripts beside it ----
  const loaded = new Map();
  const waiting = new Map();
  window.mstData = (number, text) => {
    loaded.set(number, JSON.parse(text));
    const done = waiting.get(number);
    if (done) done.resolve(loaded.get(number));
  };
  const chunk = (number) => {
    if (loaded.has(number)) return Promise.resolve(loaded.get(number));
    if (index.data === null) {
      loaded.set(number, JSON.parse($(`chunk-${number}`).textContent));
      return Promise.resolve(loaded.get(number));
    }
    if (!waiting.has(number)) {
      const handle = {};
      handle.promise = new Promise((resolve, reject) => Object.assign(handle, { resolve, reject }));
      waiting.set(number, handle);
      const file = `data/${index.data}/${number}.js`;
      const script = el("script", { src: file });
      script.onerror = () => {
        waiting.delete(number);
        handle.reject(new Error(`${file} could not be loaded. Keep the folder "data" beside this page.`));
      };
      document.head.append(script);
    }
    return waiting.get(number).promise;
  };

  // ---- the grid ----
  const state = { limit: PAGE, rows: index.cases };
  const cellOf = (row, variant) => row.cells.find((cell) => cell[0] === variant);
  const hasOutcome = (row, letter) => row.cells.some((cell) => cell[1].includes(letter));

  const describe = (letters, passed) => {
    const n = letters.length;
    if (n === 1) return OUTCOMES[letters][0];
    const scored = [...letters].filter((letter) => letter === "p" || letter === "f").length;
    const good = [...letters].filter((letter) => letter === "p").length;
    const rest = n - scored ? `, ${n - scored} without a score` : "";
    const word = passed === null ? "not scored" : passed ? "passed" : "failed";
    return `${word}, ${good} of ${count(scored, "scored trial")}${rest}`;
  };

  const cellNode = (row, variant) => {
    const cell = cellOf(row, variant);
    if (!cell) return el("td", {}, el("span", { class: "muted" }, "not run"));
    const [, letters, , passed] = cell;
    const said = describe(letters, passed);
    const kind = passed === true ? "pass" : passed === false ? "fail" : "none";
    const marks = [...letters].slice(0, 12).map((letter) => OUTCOMES[letter][1]).join("");
    const text = letters.length === 1 ? `${marks} ${said}` : `${[...letters].filter((l) => l === "p").length}/${letters.length} `;
    const button = el("button", {
      type: "button", class: `cell ${kind}`, "data-row": row.n, "data-variant": variant,
      "aria-label": `${index.variants[variant]} on ${row.id}: ${said}`,
      on: { click: () => open(row, variant, null) },
    }, text, letters.length > 1 ? el("span", { class: "marks", "aria-hidden": "true" }, marks + (letters.length > 12 ? "\u2026" : "")) : null);
    const compared = row.comparisons.find((found) => found[0] === variant);
    const words = { candidate: "preferred", baseline: "baseline preferred", tie: "tie", error: "comparison failed", skipped: "comparison skipped" };
    const tally = new Map();
    for (const [, word] of compared ? compared.slice(1) : []) tally.set(word, (tally.get(word) || 0) + 1);
    const comparedAs = [...tally].map(([word, n]) => `${words[word] || word}${n > 1 ? ` by ${n} judges` : ""}`).join(", ");
    const preferred = comparedAs ? el("span", { class: "preferred" }, comparedAs) : null;
    return el("td", {}, button, preferred);
  };

  const rowNode = (row) => el("tr", {},
    el("th", { scope: "row" },
      row.id, FLIPS[row.flip] ? el("span", { class: `flip ${row.flip}` }, FLIPS[row.flip]) : null,
      row.title && row.title !== row.id ? el("span", { class: "title" }, row.title) : null,
      row.tags.length ? el("span", { class: "title" }, row.tags.map((tag) => el("span", { class: "tag" }, tag))) : null),
    index.variants.map((_, variant) => cellNode(row, variant)));

  const OUTCOME_FILTERS = [
    ["", "all", () => true],
    ["flips", "flips", (row) => row.flip !== ""],
    ["regression", "regressions", (row) => row.flip === "regression"],
    ["down", "down from the baseline", (row) => row.flip === "down" || row.flip === "regression"],
    ["up", "up from the baseline", (row) => row.flip === "up"],
    ["f", "some trial failed", (row) => hasOutcome(row, "f")],
    ["differ", "variants differ", (row) => new Set(row.cells.map((cell) => cell[3])).size > 1],
    ["apart", "some trial without a score", (row) => row.cells.some((cell) => /[imgnu]/.test(cell[1]))],
    ["g", "grading error", (row) => hasOutcome(row, "g")],
    ["same", "all passed everywhere", (row) => row.cells.every((cell) => cell[3] === true)],
  ];

  const filterRows = () => {
    const wanted = $("find").value.trim().toLowerCase();
    const tag = $("by-tag").value;
    const test = OUTCOME_FILTERS.find(([value]) => value === $("by-outcome").value)[2];
    state.rows = index.cases.filter((row) => test(row) && (!tag || row.tags.includes(tag)) &&
      (!wanted || `${row.id} ${row.title} ${row.tags.join(" ")}`.toLowerCase().includes(wanted)));
    state.limit = PAGE;
    draw();
  };

  const draw = () => {
    const body = $("grid").tBodies[0];
    body.replaceChildren(...state.rows.slice(0, state.limit).map(rowNode));
    if (!state.rows.length) body.append(el("tr", {}, el("td", { colspan: index.variants.length + 1, class: "muted" }, "No case matches.")));
    const left = state.rows.length - state.limit;
    $("more").hidden = left <= 0;
    $("more").textContent = `Show ${Math.min(left, PAGE)} more of ${left}`;
    $("shown").textContent = `${state.rows.length.toLocaleString("en")} of ${count(index.cases.length, "case")}`;
  };

  const setUpGrid = () => {
    const head = el("tr", {}, el("th", { scope: "col" }, "case"), index.variants.map((name, variant) =>
      el("th", { scope: "col" }, name, variant === index.baseline ? [" ", el("span", { class: "tag" }, "baseline")] : null)));
    $("grid").tHead.append(head);
    $("by-outcome").append(...OUTCOME_FILTERS.map(([value, label]) => el("option", { value }, label)));
    const tags = [...new Set(index.cases.flatMap((row) => row.tags))].sort();
    $("by-tag").append(el("option", { value: "" }, "all"), ...tags.map((tag) => el("option", { value: tag }, tag)));
    $("legend").textContent = "Open a cell to see what happened. " +
      Object.values(OUTCOMES).map(([word, mark]) => `${mark} ${word}`).join("   ");
    for (const [id, event] of [["find", "input"], ["by-outcome", "change"], ["by-tag", "change"]]) $(id).addEventListener(event, filterRows);
    $("filters").addEventListener("submit", (event) => event.preventDefault());
    $("more").addEventListener("click", () => { state.limit += PAGE; draw(); });
    $("grid").addEventListener("keydown", moveFocus);
    draw();
  };

  // Arrow keys walk over the cells; each stays reachable by Tab.
  const moveFocus = (event) => {
    const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    const step = steps[event.key];
    const cell = event.target.closest("td");
    if (!step || !cell || !event.target.classList.contains("cell")) return;
    const row = cell.parentElement;
    const target = row.parentElement.rows[row.sectionRowIndex + step[0]]?.cells[cell.cellIndex + step[1]]?.querySelector("button");
    if (target) { event.preventDefault(); target.focus(); }
  };

  // ---- the panel ----
  const text = (label, value, kind = "") => value === undefined ? [] : [el("h3", {}, label), el("pre", { class: `text ${kind}`, tabindex: "0" }, value)];
  const folded = (label, value) => value === undefined ? [] : el("details", { open: value.length < 400 }, el("summary", {}, el("b", {}, label)), el("pre", { class: "text", tabindex: "0" }, value));
  const kindOf = (word) => word.startsWith("passed") ? "pass" : word.startsWith("failed") ? "fail" : "none";

  const diffNode = (diff) => el("pre", { class: "diff", tabindex: "0" }, diff.replace(/\n$/, "").split("\n").map((line) => {
    const kind = /^(\+\+\+|---|diff |index )/.test(line) ? "file" : line.startsWith("@@") ? "hunk" : line.startsWith("+") ? "add" : line.startsWith("-") ? "del" : "";
    return el("span", { class: kind }, line);
  }));

  const eventNode = (event) => {
    const where = [event.kind.replace("_", " "), event.server || event.source].filter(Boolean).join(", ");
    const short = event.kind === "message";
    const part = (label, value) => value === undefined ? null
      : short ? el("pre", { class: "text" }, value)
      : el("details", { open: value.length < 600 }, el("summary", { class: "muted small" }, label), el("pre", { class: "text" }, value));
    return el("li", { class: `event ${event.isError ? "bad" : ""}` },
      el("div", { class: "head" }, el("b", {}, event.name || event.kind), el("span", { class: "muted small" }, where),
        event.isError ? el("span", { class: "word fail" }, "error") : null,
        event.time ? el("span", { class: "muted small" }, event.time) : null),
      part("arguments", event.arguments), part("output", event.output), part("found", event.found));
  };

  const scoreNode = (score) => el("div", { class: "score" },
    el("div", {}, el("span", { class: `word ${kindOf(score.state)}` }, score.state), " ", el("b", {}, score.name),
      score.score !== undefined ? ` \u00b7 score ${score.score}` : "",
      score.by ? el("span", { class: "muted small" }, ` by ${score.by}`) : null),
    score.error ? el("pre", { class: "text bad" }, score.error) : null,
    score.details ? el("p", {}, score.details) : null,
    score.reasoning && score.reasoning !== score.details ? el("pre", { class: "text" }, score.reasoning) : null,
    score.deferred ? el("p", { class: "small" }, `deferred: needs ${score.deferred}`) : null,
    score.reps ? el("p", { class: "small muted" }, `repetitions: ${score.reps.join(", ")}${score.spread ? " (they differ widely)" : ""}`) : null,
    score.checks ? el("ul", {}, score.checks.map((check) => el("li", {},
      el("span", { class: `word ${check.passed ? "pass" : "fail"}` }, check.passed ? "\u2713 passed" : "\u2717 failed"), ` ${check.name || ""}`,
      check.graded === false ? el("span", { class: "muted" }, " (informational)") : null, check.detail ? el("div", { class: "small muted" }, check.detail) : null))) : null,
    score.parts ? el("ul", {}, score.parts.map((part) => el("li", {}, `${part.name}: ${part.score === undefined ? 0 : part.score}`, part.reasoning ? el("div", { class: "small muted" }, part.reasoning) : null))) : null,
    score.metrics ? el("p", { class: "small muted" }, score.metrics.map(([name, value]) => `${name} ${value}`).join(", ")) : null);

  const comparisonNode = (found, variant) => {
    const sides = { candidate: `${index.variants[variant]} preferred`, baseline: `${index.variants[index.baseline] ?? "baseline"} preferred`, tie: "tie", error: "grading error", skipped: "skipped" };
    return el("div", { class: "score" },
      el("div", {}, el("b", {}, found.judge), `: ${sides[found.preference] || "no preference"}`,
        found.consistent === false ? el("span", { class: "word none" }, " the two orders disagree") : null,
        found.by ? el("span", { class: "muted small" }, ` by ${found.by}`) : null),
      found.error ? el("pre", { class: "text bad" }, found.error) : null,
      found.reasoning ? el("pre", { class: "text" }, found.reasoning) : null,
      found.calls ? el("div", { class: "calls" }, found.calls.map((call) => el("div", {},
        el("b", {}, call.order === "baseline_first" ? "baseline shown first" : "candidate shown first"),
        el("div", {}, sides[call.preference] || "no preference"),
        el("div", { class: "small muted" }, `trial ${call.candidateTrial || 0} against trial ${call.baselineTrial || 0}${call.rep ? `, repetition ${call.rep}` : ""}`),
        call.error ? el("div", { class: "word fail" }, call.error) : null,
        call.reasoning ? el("p", { class: "small" }, call.reasoning) : null))) : null);
  };

  const choices = (label, items, current, choose) => items.length < 2 && label === "trial" ? [] : el("div", { class: "choices", role: "group", "aria-label": label },
    el("span", { class: "label" }, label), items.map(([value, name]) => el("button", { type: "button", "aria-pressed": String(value === current), on: { click: () => choose(value) } }, name)));

  const trialNodes = (trial) => [
    el("p", {}, el("span", { class: `word ${kindOf(trial.outcome)}` }, trial.outcome)),
    trial.facts ? el("dl", { class: "keys" }, trial.facts.map(([label, value]) => [el("dt", {}, label), el("dd", {}, value)])) : null,
    (trial.errors || []).map(([label, message]) => [el("h3", {}, label), el("pre", { class: "text bad" }, message)]),
    el("h3", {}, "Scores"), trial.scores ? trial.scores.map(scoreNode) : el("p", { class: "muted" }, "No grader gave a score."),
    trial.diff !== undefined ? [el("h3", {}, "Diff"), diffNode(trial.diff)] : null,
    el("h3", {}, "Transcript"),
    trial.events ? el("ol", { class: "timeline" }, trial.events.map(eventNode)) : el("p", { class: "muted" }, trial.file ? "No events were recorded." : "Nothing is stored of this trial."),
    trial.moreEvents ? el("p", { class: "muted" }, `${count(trial.moreEvents, "more event")} in the stored file.`) : null,
    text("Final answer", trial.answer),
    trial.artifacts ? [el("h3", {}, "Artifacts"), el("ul", {}, trial.artifacts.map(([path, size]) => el("li", {}, el("code", {}, path), el("span", { class: "muted" }, ` ${size}`)))),
      trial.moreArtifacts ? el("p", { class: "muted" }, `${trial.moreArtifacts} more.`) : null] : null,
    trial.file ? el("p", { class: "muted small" }, "Stored in ", el("code", {}, trial.file)) : null,
  ];

  let opener = null;
  let wanted = 0;
  const open = async (row, variant, number) => {
    const ticket = ++wanted;
    const panel = $("panel");
    const body = $("panel-body");
    if (!panel.open) {
      opener = document.activeElement;
      panel.showModal();
    }
    $("panel-title").textContent = row.id;
    const variants = row.cells.map(([at]) => [at, index.variants[at]]);
    const nodes = [choices("variant", variants, variant, (value) => open(row, value, number))];
    try {
      const cell = cellOf(row, variant);
      const entry = (await chunk(cell[2]))[`t${row.n}.${variant}`];
      const trial = entry.trials.find((one) => (one.trial || 0) === number) || entry.trials[0];
      const at = trial.trial || 0;
      const trials = entry.trials.map((one) => [one.trial || 0, `${one.trial || 0} ${one.outcome}`]);
      const compared = (row.comparisons.find((found) => found[0] === variant) || [variant]).slice(1);
      const findings = await Promise.all(compared.map(async ([where], nth) => (await chunk(where))[`c${row.n}.${variant}.${nth}`]));
      nodes.push(
        choices("trial", trials, at, (value) => open(row, variant, value)),
        folded("Input", entry.case.input), folded("Expected", entry.case.reference),
        trialNodes(trial),
        findings.length ? [el("h3", {}, "Compared with the baseline"), findings.map((found) => comparisonNode(found, variant))] : null);
    } catch (error) {
      nodes.push(el("pre", { class: "text bad", role: "alert" }, error.message));
    }
    if (ticket !== wanted) return;
    body.replaceChildren(...nodes.flat(Infinity).filter((node) => node !== null && node !== undefined));
    panel.scrollTop = 0;
    history.replaceState(null, "", `#case=${encodeURIComponent(row.id)}&variant=${encodeURIComponent(index.variants[variant])}${number === null ? "" : `&trial=${number}`}`);
  };

  const openByName = (id, name, number) => {
    const row = index.cases.find((one) => one.id === id);
    const variant = index.variants.indexOf(name);
    if (row && cellOf(row, variant)) open(row, variant, number);
  };

  const openFromAddress = () => {
    const asked = new URLSearchParams(location.hash.slice(1));
    if (asked.has("case")) openByName(asked.get("case"), asked.get("variant"), asked.has("trial") ? Number(asked.get("trial")) : null);
  };

  const setUpPanel = () => {
    const panel = $("panel");
    $("close").addEventListener("click", () => panel.close());
    panel.addEventListener("click", (event) => { if (event.target === panel) panel.close(); });
    panel.addEventListener("close", () => {
      history.replaceState(null, "", location.pathname + location.search);
      opener?.focus();
    });
    window.addEventListener("hashchange", openFromAddress);
    openFromAddress();
  };

  const setUpTheme = () => {
    const root = document.documentElement;
    const stored = (() => { try { return localStorage.getItem("mst-theme"); } catch { return null; } })();
    if (stored === "light" || stored === "dark") root.dataset.theme = stored;
    $("theme").addEventListener("click", () => {
      const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
      root.dataset.theme = dark ? "light" : "dark";
      try { localStorage.setItem("mst-theme", root.dataset.theme); } catch { /* some browsers keep nothing for pages from a disk */ }
    });
  };

  setUpTheme();
  setUpGrid();
  setUpPanel();
})();
