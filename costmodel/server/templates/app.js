"use strict";
(function () {
  const byId = (id) => document.getElementById(id);
  const made = (tag, text) => {
    const item = document.createElement(tag);
    if (text !== undefined) item.textContent = text;
    return item;
  };
  const KINDS = { training: "Training", serving: "Serving", rl: "Reinforcement learning" };
  /* Flags with a slider: powers of two between these. */
  const SLIDERS = { gpus: [0, 13], sequence: [9, 20], batch: [3, 14], rate: [-2, 10], prompt: [5, 17], answer: [3, 15] };
  const START = { question: "search", kind: "training", model: "llama-3.1-8b", gpu: "h100-sxm", gpus: "64" };
  const PRESETS = { serving: { rate: "8", prompt: "2000", answer: "500" }, rl: { rl: "grpo" }, training: {} };
  const fields = byId("fields"), state = byId("state"), page = byId("page");
  let offered, texts = {}, values = { ...START };

  /* The link: its fragment holds what is asked. */
  const read = () => {
    try {
      const found = JSON.parse(decodeURIComponent(location.hash.slice(1)));
      texts = found.texts ?? {};
      values = { ...START, ...found.values };
    } catch { /* no fragment, or none of this page */ }
  };
  const share = () => {
    const held = { values, ...(Object.keys(texts).length ? { texts } : {}) };
    history.replaceState(null, "", "#" + encodeURIComponent(JSON.stringify(held)));
  };

  /* The pickers of a workload, each a flag of the command line. */
  const field = (name, label, control) => {
    const shown = made("label", label);
    shown.htmlFor = control.id = "f-" + name;
    control.dataset.flag = name;
    if (control.tagName !== "SELECT") control.autocomplete = "off";
    control.value = values[name] ?? "";
    fields.append(shown, control);
    return control;
  };
  const select = (name, label, choices) => {
    const control = made("select");
    for (const [value, text] of choices) {
      const option = made("option", text);
      option.value = value;
      control.append(option);
    }
    return field(name, label, control);
  };
  const text = (name, label, list) => {
    const control = field(name, label, made("input"));
    if (list) {
      const known = made("datalist");
      known.id = "l-" + name;
      for (const each of list) known.append(Object.assign(made("option"), { value: each }));
      control.setAttribute("list", known.id);
      fields.append(known);
    }
    if (SLIDERS[name]) {
      const slider = made("input"), [low, high] = SLIDERS[name];
      Object.assign(slider, { type: "range", min: low, max: high, step: 1, value: Math.log2(parseFloat(control.value)) || low });
      slider.setAttribute("aria-label", label + ", slider");
      slider.dataset.moves = name;
      fields.append(slider);
    }
    return control;
  };
  const draw = () => {
    fields.replaceChildren();
    select("question", "Question", offered.questions.map((name) => [name, name]));
    select("kind", "Job", Object.entries(KINDS));
    text("model", "Model: a name, or drop a config.json anywhere here", [...Object.keys(texts), ...offered.models]);
    select("gpu", offered.help.gpu, offered.gpus.map((name) => [name, name]));
    for (const name of offered.flags[values.kind])
      if (name !== "model" && name !== "gpu") text(name, offered.help[name]);
    const more = made("textarea");
    more.rows = 3;
    more.placeholder = values.kind === "serving" ? "limits.ttft_p99.at_most=1s" : "plan.tp=4";
    field("settings", "Any key and limit, one on each line", more);
  };

  /* Asking: at most one question is under way; what moved meanwhile is asked next, and the whole answer when all rests. */
  let asking = false, next = null, rest;
  const request = () => {
    const sent = {}, flags = new Set([...offered.flags[values.kind], "gpu", "gpus", "model"]);
    for (const [name, value] of Object.entries(values)) if (flags.has(name) && value !== "") sent[name] = name === "gpus" ? Number(value) : value;
    const settings = (values.settings ?? "").split("\n").map((line) => line.trim()).filter(Boolean);
    if (settings.length) sent.settings = settings;
    if (texts[values.model] !== undefined) sent.texts = texts;
    return sent;
  };
  const ask = async (whole) => {
    clearTimeout(rest);
    if (asking) {
      next = whole;
      return;
    }
    asking = true;
    share();
    state.className = "";
    try {
      const asked = await fetch("/page/" + values.question + (whole ? "?whole=1" : ""), {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify(request()),
      });
      const said = await asked.json();
      if (asked.status === 503) next = whole;
      else if (said.errors) {
        state.className = "bad";
        state.textContent = said.errors.map((each) => [each.code + ": " + each.message, each.remedy].filter(Boolean).join("\n  ")).join("\n");
      } else show(said, whole);
    } catch {
      state.className = "bad";
      state.textContent = "costmodel open does not answer; start it again.";
    }
    asking = false;
    if (next !== null) {
      const wanted = next;
      next = null;
      setTimeout(() => ask(wanted), state.className ? 0 : 20);
    }
  };
  const show = (said, whole) => {
    const scrolled = page.contentWindow?.scrollY ?? 0;
    page.onload = () => {
      page.style.height = page.contentDocument.documentElement.scrollHeight + 20 + "px";
      page.contentWindow.scrollTo(0, scrolled);
    };
    page.srcdoc = said.html;
    byId("command").textContent = said.command;
    if (said.yaml) byId("yaml").textContent = said.yaml;
    state.textContent = said.works ? "" : "The answer is no: see below.";
    if (!whole) rest = setTimeout(() => ask(true), 700);
  };
  fields.addEventListener("input", (event) => {
    const { flag, moves } = event.target.dataset;
    if (moves) {
      values[moves] = String(2 ** Number(event.target.value));
      byId("f-" + moves).value = values[moves];
    } else values[flag] = event.target.value;
    if (flag === "kind") {
      values = { ...values, ...PRESETS[values.kind] };
      draw();
      byId("f-kind").focus();
    }
    ask(false);
  });
  byId("pickers").addEventListener("submit", (event) => event.preventDefault());

  /* A dropped file is a text of the request, by its name. */
  document.addEventListener("dragover", (event) => {
    event.preventDefault();
    fields.className = "drop";
  });
  document.addEventListener("drop", async (event) => {
    event.preventDefault();
    fields.className = "";
    const file = event.dataTransfer.files[0];
    if (!file) return;
    texts = { [file.name]: await file.text() };
    values.model = file.name;
    draw();
    ask(false);
  });
  addEventListener("hashchange", () => {
    read();
    draw();
    ask(false);
  });
  read();
  fetch("/page").then((asked) => asked.json()).then((found) => {
    offered = found;
    draw();
    ask(false);
  });
})();
