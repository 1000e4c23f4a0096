"use strict";
(function () {
  const byId = (id) => document.getElementById(id);
  const made = (tag, text, kind) => {
    const item = document.createElement(tag);
    if (text !== undefined) item.textContent = text;
    if (kind) item.className = kind;
    return item;
  };
  let unpacking;
  const unpacked = () => {
    if (!unpacking) {
      const packed = byId("packed");
      const bytes = Uint8Array.from(atob(packed.textContent), (letter) => letter.charCodeAt(0));
      const plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
      unpacking = new Response(plain).json();
    }
    return unpacking;
  };

  /* Drawers: how a number was made, and what a row of a table is. */
  const drawer = byId("drawer"), title = byId("drawer-h"), body = byId("drawer-body");
  const show = (words, parts) => {
    title.textContent = words;
    body.replaceChildren(...parts);
    if (drawer.open) title.focus();
    else drawer.showModal();
  };
  const combined = (trace, text, node) => {
    if (typeof text === "string") return text;
    const [before, between, after] = text;
    return before + node[4].map((inner) => trace.nodes[inner][1]).join(between) + after;
  };
  const how = (trace, node) => {
    const parts = [];
    if (node[2] >= 0) parts.push(made("p", combined(trace, trace.texts[node[2]], node), "made"));
    if (node[3] >= 0) parts.push(made("p", "from " + trace.texts[node[3]], "made"));
    for (const inner of node[4]) parts.push(branch(trace, trace.nodes[inner]));
    return parts;
  };
  const branch = (trace, node) => {
    const words = node[0] + "  " + node[1];
    if (node[2] < 0 && node[3] < 0 && !node[4].length) return made("p", words, "leaf");
    const item = made("details");
    item.append(made("summary", words));
    item.addEventListener("toggle", () => {
      if (item.open && item.childElementCount === 1) item.append(...how(trace, node));
    });
    return item;
  };
  const openTrace = async (place) => {
    const trace = (await unpacked()).trace, node = trace.nodes[place];
    show(node[0] + "  " + node[1], how(trace, node));
  };
  /* A figure of another plan: its trace where the page has it, else the command that prints it. */
  const line = (rows, place, figure) =>
    ["costmodel", figure ? "explain" : "estimate", rows.scenario, figure, rows.settings[place]].filter(Boolean).join(" ");
  const openFigure = async (key, place, figure, text) => {
    const rows = (await unpacked())[key], trace = rows.traces?.[figure]?.[place];
    if (trace !== undefined) return openTrace(trace);
    const words = "This command prints its equation, inputs and sources; --depth 9 goes further down.";
    show(figure + "  " + text, [made("p", words), made("pre", line(rows, place, figure))]);
  };
  const button = (contents, figure) => {
    const item = made("button", undefined, "how");
    item.type = "button";
    item.dataset.figure = figure;
    item.append(...contents);
    return item;
  };
  for (const table of document.querySelectorAll("table[data-rows]")) {
    const figures = [...table.tHead.rows[0].cells].map((head) => head.dataset.figure);
    [...table.tBodies[0].rows].forEach((row, place) => {
      row.dataset.place = place;
      figures.forEach((figure, at) => {
        const cell = row.cells[at];
        if (figure && /\d/.test(cell.textContent)) cell.append(button(cell.childNodes, figure));
      });
    });
  }
  const listed = (pairs, key, place) => {
    const list = made("dl", undefined, "facts");
    for (const [name, text, figure] of pairs) {
      const entry = made("div"), held = made("dd", figure ? undefined : text);
      if (figure) held.append(button([text], figure));
      Object.assign(held.dataset, { rows: key, place });
      entry.append(made("dt", name), held);
      list.append(entry);
    }
    return list;
  };
  const number = (value, unit) => {
    if (value === null || value === undefined) return "unknown";
    if (typeof value !== "number") return String(value);
    const plain = (amount) => amount.toLocaleString("en-US", { maximumSignificantDigits: 4 });
    if (unit === "B") return plain(value / 2 ** 30) + " GiB";
    if (unit === "1") return plain(value * 100) + " %";
    if (unit === "s" && value && Math.abs(value) < 1) return plain(value * 1000) + " ms";
    return plain(value) + (unit ? " " + unit : "");
  };
  const details = (plans, place) =>
    plans.columns.map((column) => [column.label, number(column.values[place], column.unit), column.figure]);
  const openPlan = async (key, place) => {
    const plans = (await unpacked())[key];
    const notes = plans.notes[place].map((note) => made("p", note));
    show("Plan " + (place + 1), [...notes, made("pre", line(plans, place)), listed(details(plans, place), key, place)]);
  };
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    const around = button.closest("[data-place]")?.dataset, key = around && (around.rows ?? button.closest("table").dataset.rows);
    if (button.dataset.trace) openTrace(Number(button.dataset.trace));
    else if (button.dataset.figure) openFigure(key, Number(around.place), button.dataset.figure, button.textContent.trim());
    else if (button.classList.contains("row")) openPlan(key, Number(around.place));
    else if (button.classList.contains("sort")) sort(button.closest("th"));
  });

  /* Tables: sorted by a column, filtered by words or by column=value. */
  const cellOf = (row, place) => row.cells[place].textContent.trim();
  const sort = (head) => {
    const table = head.closest("table"), rows = table.tBodies[0], place = head.cellIndex;
    const down = head.getAttribute("aria-sort") === "ascending";
    for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const keyed = [...rows.rows].map((row) => {
      const text = cellOf(row, place), value = parseFloat(text.replaceAll(",", "").replace("−", "-"));
      return [row, text, value];
    });
    keyed.sort(([, text, value], [, other, another]) => {
      const both = !Number.isNaN(value) && !Number.isNaN(another);
      const order = both ? value - another : text.localeCompare(other, "en");
      return down ? -order : order;
    });
    rows.append(...keyed.map(([row]) => row));
  };
  const filter = (input) => {
    const table = byId(input.dataset.filter), heads = [...table.tHead.rows[0].cells].map((cell) => cell.textContent.trim());
    const wanted = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    for (const row of table.tBodies[0].rows) {
      const kept = wanted.every((word) => {
        const [name, value] = word.split("=");
        const place = value === undefined ? -1 : heads.findIndex((head) => head.toLowerCase() === name);
        if (place >= 0) return cellOf(row, place).toLowerCase() === value;
        return row.textContent.toLowerCase().includes(word);
      });
      row.hidden = !kept;
      count += kept;
    }
    byId(input.dataset.filter + "-count").textContent = count + (count === 1 ? " row" : " rows");
  };
  const zoom = (input) => {
    for (const figure of byId(input.dataset.zoom).querySelectorAll(".figure")) {
      figure.style.width = 100 * input.value + "%";
      figure.style.maxWidth = input.value > 1 ? "none" : "";
    }
  };
  document.addEventListener("input", (event) => {
    if (event.target.dataset.filter) filter(event.target);
    else if (event.target.dataset.zoom) zoom(event.target);
    else if (event.target.dataset.axis) choose();
  });

  /* Sliders: among plans that were computed; nothing is computed here. */
  const form = byId("sliders");
  let plans;
  const valueOf = (place, axis) => plans.columns.find((column) => column.name === axis.name).values[place];
  const draw = () => {
    plans.axes.forEach((axis, place) => {
      const box = made("div"), label = made("label"), output = made("output"), slider = made("input");
      label.htmlFor = slider.id = output.htmlFor = "axis-" + place;
      output.id = "axis-value-" + place;
      slider.type = "range";
      slider.min = 0;
      slider.max = axis.values.length - 1;
      slider.value = axis.values.indexOf(valueOf(plans.own, axis));
      slider.dataset.axis = place;
      label.append(made("span", axis.label), output);
      box.append(label, slider);
      form.append(box);
    });
    choose();
  };
  const choose = () => {
    const wanted = plans.axes.map((axis, place) => {
      const slider = byId("axis-" + place), value = axis.values[slider.value];
      byId("axis-value-" + place).textContent = value;
      slider.setAttribute("aria-valuetext", axis.label + " " + value);
      return value;
    });
    const count = plans.columns[0].values.length;
    let found = -1;
    for (let place = 0; place < count && found < 0; place += 1) {
      if (plans.axes.every((axis, at) => valueOf(place, axis) === wanted[at])) found = place;
    }
    const place = byId("chosen");
    if (found < 0) {
      place.replaceChildren(made("p", "No valid plan has these four settings.", "conclusion bad"));
      return;
    }
    const fits = plans.fits[found];
    const words = plans.sentences[found];
    place.replaceChildren(made("p", words, "conclusion " + (fits ? "good" : "bad")), listed(details(plans, found), "choices", found));
  };
  if (form && "DecompressionStream" in window) {
    unpacked().then((data) => {
      plans = data.choices;
      draw();
    });
  }
})();
