"use strict";
(function () {
  const byId = (id) => document.getElementById(id);
  const made = (tag, text, properties) => Object.assign(document.createElement(tag), text === undefined ? {} : { textContent: text }, properties);
  const KINDS = { training: "Training", serving: "Serving", rl: "Reinforcement learning" };
  /* Flags with a slider: powers of two between these. */
  const SLIDERS = { gpus: [0, 13], sequence: [9, 20], batch: [3, 14], rate: [-2, 10], prompt: [5, 17], answer: [3, 15], prompts: [4, 12], samples: [1, 7] };
  /* Flags that are shown at once, of jobs and of questions; others are folded. */
  const FIRST = {
    training: ["gpus", "sequence", "batch"],
    serving: ["gpus", "rate", "prompt", "answer", "ttft", "tpot"],
    rl: ["gpus", "rl", "prompts", "samples", "prompt", "answer"],
    buy: ["tokens", "iterations", "deadline", "budget"],
    run: ["tokens", "iterations"],
  };
  const START = { question: "search", kind: "training", model: "llama-3.1-8b", gpu: "h100-sxm", gpus: "64", "scale.ranks": "8..1024", "scale.rate": "1..64" };
  const PRESETS = {
    training: { sequence: "4096", batch: "1024" },
    serving: { rate: "8", prompt: "2000", answer: "500" },
    rl: { rl: "grpo", prompts: "128", samples: "8", prompt: "512", answer: "2048" },
  };
  const ENDS = { training: { tokens: "2T", deadline: "60d" }, rl: { iterations: "100", deadline: "30d" }, serving: {} };
  const ends = new Set(); /* of these the ones that the page filled in: they leave with the question */
  const fields = byId("fields"), state = byId("state"), frames = byId("frames");
  let offered, texts = {}, values = { ...START, ...PRESETS.training };

  /* The link: its fragment holds what is asked. */
  const read = () => {
    try {
      const found = JSON.parse(decodeURIComponent(location.hash.slice(1)));
      texts = found.texts ?? {};
      values = found.values;
    } catch { /* no fragment, or none of this page */ }
  };
  const share = () => {
    const held = { values: Object.fromEntries(Object.entries(values).filter(([, value]) => value !== "")), ...(Object.keys(texts).length ? { texts } : {}) };
    history.replaceState(null, "", "#" + encodeURIComponent(JSON.stringify(held)));
  };

  /* What a question takes: its own keys, and flags of its job; one that means something else there has its own value. */
  const asked = () => offered.questions[values.question] ?? offered.questions.search;
  const kind = () => offered.scenarios[values.scenario]?.kind ?? /^workload:[^]*?^ +kind: *(\w+)/m.exec(texts[values.scenario])?.[1] ?? values.kind;
  const own = () => asked().own[kind()] ?? {};
  const flags = () => [...Object.keys(own()), ...offered.flags[kind()]].filter((name, place, all) => all.indexOf(name) === place && !asked().without.includes(name));
  const help = (name) => own()[name] ?? asked().help[name] ?? offered.help[name];
  const key = (name) => (name in own() || name in asked().help ? values.question + "." + name : name);

  /* The pickers, each a flag of the command line. */
  const field = (into, name, label, control) => {
    control.id = "f-" + name;
    control.dataset.key = key(name);
    const words = made("label", label, { htmlFor: control.id });
    if (control.tagName !== "SELECT") control.autocomplete = "off";
    if (control.type === "checkbox") {
      control.checked = values[key(name)] === true;
      words.className = "yes";
      words.prepend(control);
      into.append(words);
    } else {
      control.value = values[key(name)] ?? "";
      into.append(words, control);
    }
    return control;
  };
  const select = (into, name, label, choices) => {
    const control = made("select");
    for (const [value, text] of choices) control.append(made("option", text, { value }));
    field(into, name, label, control);
    if (control.selectedIndex < 0) control.selectedIndex = 0;
  };
  const text = (into, name, label, list) => {
    const control = field(into, name, label, made("input"));
    if (list) {
      const known = made("datalist", undefined, { id: "l-" + name });
      for (const each of list) known.append(made("option", undefined, { value: each }));
      control.setAttribute("list", known.id);
      into.append(known);
    }
    if (values.scenario) control.placeholder = "as in the scenario";
    if (!SLIDERS[name] || key(name) !== name) return;
    const slider = made("input"), pair = made("div", undefined, { className: "pair" }), [min, max] = SLIDERS[name];
    Object.assign(slider, { type: "range", min, max, step: 1 });
    slider.setAttribute("aria-label", label + ", slider");
    slider.dataset.moves = control.id;
    control.inputMode = "text";
    control.replaceWith(pair);
    pair.append(slider, control);
    place(slider, control.value);
  };
  const place = (slider, value) => {
    const number = /^\d+(\.\d+)?$/.test(value) ? Math.log2(value) : NaN;
    slider.classList.toggle("unset", isNaN(number));
    slider.value = isNaN(number) ? (Number(slider.min) + Number(slider.max)) / 2 : number;
    slider.setAttribute("aria-valuetext", value || "default");
  };
  const draw = () => {
    const at = document.activeElement?.id, more = made("details", undefined, { className: "more", open: !!fields.querySelector(".more[open]") });
    fields.replaceChildren();
    more.append(made("summary", "More: node, software, price and any other key"));
    select(fields, "question", "Question", Object.entries(offered.questions).map(([name, each]) => [name, each.title]));
    const dropped = Object.keys(texts).filter((name) => /\.ya?ml$/.test(name)).map((name) => [name, name]);
    select(fields, "scenario", "Job", [["", "Your own, from these pickers"], ...dropped, ...Object.entries(offered.scenarios).map(([name, each]) => [name, each.title])]);
    if (!values.scenario) select(fields, "kind", "Kind of job", Object.entries(KINDS));
    text(fields, "model", "Model", [...Object.keys(texts), ...offered.models]);
    const file = made("input", undefined, { type: "file", accept: ".json,.yaml,.yml" });
    const open = made("label", "Open a config.json or a scenario, or drop it anywhere", { className: "file" });
    file.addEventListener("change", () => take(file.files[0]));
    open.append(file);
    fields.append(open);
    const any = values.question === "buy" ? [["", "every one with a price"]] : values.scenario ? [["", "as in the scenario"]] : [];
    select(fields, "gpu", help("gpu"), [...any, ...offered.gpus.map((name) => [name, name])]);
    const first = [...Object.keys(own()), ...FIRST[kind()], ...(FIRST[values.question] ?? [])];
    for (const name of [...first.filter((name) => flags().includes(name)), ...flags().filter((name) => !first.includes(name))]) {
      const into = first.includes(name) ? fields : more;
      if (asked().yes.includes(name)) field(into, name, help(name), made("input", undefined, { type: "checkbox" }));
      else if (name !== "model" && name !== "gpu") text(into, name, help(name), offered.choices[name]);
    }
    const keys = made("textarea", undefined, { rows: 3, placeholder: kind() === "serving" ? "limits.ttft_p99.at_most=1s" : "plan.tp=4" });
    field(more, "settings", "Any key and limit, one on each line", keys);
    if (values.settings) more.open = true;
    fields.append(more);
    byId(at)?.focus();
  };

  /* Asking: at most one question is under way; what moved meanwhile is asked next, and the whole answer when all rests.
     The whole answer is not waited for once something moves. */
  let asking = null, next = null, rest;
  const request = () => {
    const sent = {};
    if (values.scenario) sent.scenario = values.scenario;
    for (const name of flags()) {
      const value = values[key(name)] ?? "";
      if (value !== "" && value !== false) sent[name] = name === "gpus" && /^\d+$/.test(value) ? Number(value) : value;
    }
    const settings = (values.settings ?? "").split("\n").map((line) => line.trim()).filter(Boolean);
    if (settings.length) sent.settings = settings;
    if ([values.model, values.scenario].some((name) => texts[name] !== undefined)) sent.texts = texts;
    return sent;
  };
  const ask = async (whole) => {
    clearTimeout(rest);
    byId("answer").setAttribute("aria-busy", String(!whole));
    if (asking) {
      next = whole;
      if (asking.whole) asking.abort();
      return;
    }
    asking = Object.assign(new AbortController(), { whole });
    const slow = setTimeout(() => whole || tell("Working …"), 600);
    share();
    let wait = 0;
    try {
      const answered = await fetch("/page/" + values.question + (whole ? "?whole=1" : ""), {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify(request()),
        signal: asking.signal,
      });
      const found = await answered.json();
      if (answered.status === 503) {
        next ??= whole;
        wait = 1000 * Number(answered.headers.get("Retry-After"));
      } else if (found.errors) tell(found.errors.map((each) => [each.code + ": " + each.message, each.remedy].filter(Boolean).join("\n  ")).join("\n"), true);
      else show(found, whole);
    } catch {
      if (!asking.signal.aborted) tell("costmodel open does not answer; start it again.", true);
    }
    clearTimeout(slow);
    asking = null;
    byId("answer").setAttribute("aria-busy", String(next !== null));
    if (next !== null) {
      const wanted = next;
      next = null;
      setTimeout(() => ask(wanted), wait);
    }
  };
  const tell = (words, bad) => {
    state.className = bad ? "bad" : "";
    frames.className = bad ? "old" : "";
    state.textContent = words;
  };

  /* The answer is a page in a frame as high as itself; the frame before it stays until the new one is drawn. */
  const show = (found, whole) => {
    for (const each of frames.querySelectorAll(".next")) each.remove();
    const frame = made("iframe", undefined, { title: "The answer", srcdoc: found.html, className: "next" });
    frame.addEventListener("load", () => {
      const inner = frame.contentDocument;
      new ResizeObserver(() => (frame.style.height = inner.body.offsetHeight + 1 + "px")).observe(inner.body);
      inner.addEventListener("click", (event) => {
        const to = event.target.closest?.("a[href^='#']")?.getAttribute("href");
        if (to) event.preventDefault(), inner.querySelector(to)?.scrollIntoView();
      });
      /* A drawer opens where one looks, not in the middle of the frame. */
      new MutationObserver(() => {
        const high = Math.max(0, -frame.getBoundingClientRect().top);
        inner.getElementById("drawer").style.cssText = `margin-top:${high + 24}px;max-height:${innerHeight - 48}px`;
      }).observe(inner.getElementById("drawer"), { attributeFilter: ["open"] });
      byId("brief").textContent = inner.getElementById("conclusion").textContent;
      byId("page")?.remove();
      frame.id = "page";
      frame.className = "";
    });
    frames.append(frame);
    byId("command").replaceChildren(...found.command.split(/(?<= )(?=--)/).map((words) => made("span", words)));
    byId("yaml").textContent = found.yaml;
    tell(found.works ? "" : "The answer is no: see below.");
    if (!whole) rest = setTimeout(() => ask(true), 700);
  };
  fields.addEventListener("input", (event) => {
    const { moves } = event.target.dataset, control = moves ? byId(moves) : event.target;
    if (moves) {
      control.value = String(2 ** Number(event.target.value));
      event.target.setAttribute("aria-valuetext", control.value);
      event.target.classList.remove("unset");
    } else if (control.previousElementSibling?.dataset.moves) place(control.previousElementSibling, control.value);
    const changed = control.dataset.key;
    if (!changed) return;
    const { question } = values;
    values[changed] = control.type === "checkbox" ? control.checked : control.value;
    if (changed === "scenario" && values.scenario) values = { question, scenario: values.scenario };
    else if (changed === "scenario") values = { ...START, question, ...PRESETS.training };
    else if (changed === "kind") values = { ...values, ...PRESETS[values.kind], settings: "" };
    ends.delete(changed);
    if (["question", "scenario", "kind"].includes(changed)) {
      for (const name of ends) delete values[name];
      ends.clear();
      for (const [name, value] of Object.entries(values.question === "buy" && !values.scenario ? ENDS[values.kind] : {}))
        if (!(name in values)) { values[name] = value; ends.add(name); }
    }
    if (["question", "scenario", "kind"].includes(changed)) draw();
    clearTimeout(rest);
    if (moves) ask(false);
    else rest = setTimeout(() => ask(false), 150); /* what is typed is asked once it is a word */
  });
  byId("pickers").addEventListener("submit", (event) => event.preventDefault());
  for (const button of document.querySelectorAll("[data-copies]")) {
    button.hidden = !navigator.clipboard;
    button.addEventListener("click", async () => {
      const { copies } = button.dataset, words = button.textContent;
      await navigator.clipboard.writeText(copies === "link" ? location.href : byId(copies).textContent);
      button.textContent = "Copied";
      setTimeout(() => (button.textContent = words), 1200);
    });
  }

  /* A file that is opened or dropped is a text of the request, by its name. */
  const take = async (file) => {
    if (!file) return;
    const name = file.name.replace(/[^\w.+-]/g, "_");
    texts = { [name]: await file.text() };
    if (/\.ya?ml$/.test(name) && /^workload:/m.test(texts[name])) values = { question: values.question, scenario: name };
    else values.model = name;
    draw();
    ask(false);
  };
  document.addEventListener("dragover", (event) => {
    event.preventDefault();
    document.body.className = "drop";
  });
  document.addEventListener("dragleave", () => (document.body.className = ""));
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    document.body.className = "";
    take(event.dataTransfer.files[0]);
  });
  addEventListener("hashchange", () => {
    read();
    draw();
    ask(false);
  });
  read();
  fetch("/page").then((answered) => answered.json()).then((found) => {
    offered = found;
    draw();
    ask(false);
  });
})();
