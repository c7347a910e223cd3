// A call shows its progress and its result on the page; items are added and removed without a request.
const progress = document.getElementById("progress");
const outcome = document.getElementById("outcome");
let running;

prepare(document);

document.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (button?.matches("[data-add]")) {
    event.preventDefault();
    add(button.closest("[data-items]"), button);
  } else if (button?.matches("[data-remove]")) {
    event.preventDefault();
    button.closest("[data-item]").remove();
  } else if (button?.matches("[data-copy]")) {
    copy(button);
  }
});

document.addEventListener("change", (event) => {
  const variants = event.target.parentElement;
  if (variants?.matches("[data-variants]")) choose(variants);
});

document.addEventListener("submit", (event) => {
  const form = event.target;
  const how = event.submitter?.value ?? "call";
  if (!form.matches("[data-call]") || ["form", "json"].includes(how)) return;
  event.preventDefault();
  send(form, event.submitter);
});

progress?.querySelector("button").addEventListener("click", () => running?.abort());

function prepare(part) {
  for (const variants of part.querySelectorAll("[data-variants]")) choose(variants);
  for (const button of part.querySelectorAll("[data-copy]")) button.hidden = false;
}

function choose(variants) {
  const chosen = variants.querySelector(":scope > select").value;
  for (const part of variants.querySelectorAll(":scope > [data-variant]")) {
    part.hidden = part.dataset.variant !== chosen;
  }
}

function add(items, button) {
  const numbers = [...items.querySelectorAll(":scope > [data-item] > input[type=hidden]")].map((it) =>
    Number(it.name.split("/").at(-2)),
  );
  const item = items.querySelector(":scope > template").content.cloneNode(true);
  number(item, String(Math.max(-1, ...numbers) + 1));
  prepare(item);
  const first = item.querySelector("input:not([type=hidden]), select, textarea");
  button.before(item);
  first?.focus();
}

// The first mark in each name is the number of this item; the others are those of items within it.
function number(part, text) {
  for (const element of part.querySelectorAll("*")) {
    for (const name of ["id", "name", "for", "value"]) {
      const value = element.getAttribute(name);
      if (value?.includes("/__i__")) element.setAttribute(name, value.replace("/__i__", `/${text}`));
    }
    if (element instanceof HTMLTemplateElement) number(element.content, text);
  }
}

async function copy(button) {
  await navigator.clipboard.writeText(button.parentElement.querySelector("pre").textContent);
  button.dataset.copied = "";
}

async function send(form, button) {
  running?.abort();
  const mine = (running = new AbortController());
  const bar = progress.querySelector("progress");
  const words = progress.querySelector("span");
  const log = progress.querySelector("ol");
  bar.removeAttribute("value");
  words.textContent = "";
  log.replaceChildren();
  progress.hidden = false;
  try {
    const response = await fetch(location.pathname, {
      method: "POST",
      headers: { accept: "text/event-stream" },
      body: new URLSearchParams(new FormData(form, button)),
      signal: mine.signal,
    });
    if (!response.ok || !response.headers.get("content-type").startsWith("text/event-stream")) {
      const page = new DOMParser().parseFromString(await response.text(), "text/html");
      outcome.replaceChildren(problem(page.querySelector("main")?.textContent ?? String(response.status)));
      return;
    }
    for await (const [kind, value] of events(response.body)) {
      if (kind === "progress") {
        if (value.total) bar.max = value.total;
        if (value.total && value.progress !== null) bar.value = value.progress;
        words.textContent = value.message || [value.progress, value.total].filter((it) => it !== null).join(" / ");
      } else if (kind === "log") {
        const line = document.createElement("li");
        line.textContent = value;
        log.append(line);
      } else if (kind === "result") {
        const page = new DOMParser().parseFromString(value, "text/html");
        outcome.replaceChildren(...page.body.childNodes);
        prepare(outcome);
        outcome.querySelector("#result")?.focus();
      }
    }
  } catch (error) {
    if (!mine.signal.aborted) outcome.replaceChildren(problem(String(error)));
  } finally {
    if (running === mine) progress.hidden = true;
  }
}

async function* events(body) {
  let rest = "";
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    for (const part of parts) {
      const [, kind, data] = /^event: (\w+)\ndata: (.*)$/s.exec(part) ?? [];
      if (kind) yield [kind, JSON.parse(data)];
    }
  }
}

function problem(text) {
  const line = document.createElement("p");
  line.className = "problem";
  line.textContent = text;
  return line;
}
