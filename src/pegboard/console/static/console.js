// What the pages gain by JavaScript: live parts, the palette, and the choice of light or dark.
const root = document.documentElement;
const kept = localStorage.getItem("theme");
if (kept) root.dataset.theme = kept;

const themeSwitch = document.querySelector("[data-theme-switch]");
themeSwitch.hidden = false;
themeSwitch.addEventListener("click", () => {
  const isDark = root.dataset.theme
    ? root.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = isDark ? "light" : "dark";
  localStorage.setItem("theme", root.dataset.theme);
});

const { updates, find } = document.body.dataset;
if (updates && document.querySelector("[data-live]")) follow(updates);
if (find) openPalette(find);

function follow(address) {
  let isStale = false;
  const stream = new EventSource(address);
  stream.addEventListener("changed", () => {
    isStale = true;
    refresh();
  });
  document.addEventListener("visibilitychange", refresh);

  async function refresh() {
    // A hidden page waits; a person who selects text or follows a link by keyboard is not disturbed.
    if (!isStale || document.hidden || !getSelection().isCollapsed) return;
    if (document.activeElement?.closest("[data-live]")) return;
    isStale = false;
    const response = await fetch(location.href, { headers: { Accept: "text/html" } });
    if (!response.ok || response.redirected) return;
    const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
    for (const part of document.querySelectorAll("[data-live]")) {
      const now = fresh.getElementById(part.id);
      if (now && now.innerHTML !== part.innerHTML) part.replaceChildren(...now.childNodes);
    }
  }
}

function openPalette(address) {
  const dialog = document.getElementById("palette");
  const input = dialog.querySelector("input");
  const list = dialog.querySelector("ul");
  const button = document.querySelector("[data-palette]");
  let asked = 0;
  let typing;
  button.hidden = false;
  button.addEventListener("click", () => dialog.showModal());
  document.addEventListener("keydown", (event) => {
    const isTyping = event.target.closest("input, textarea, select");
    if (event.key === "/" && !isTyping && !dialog.open) {
      event.preventDefault();
      dialog.showModal();
    }
  });
  input.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(ask, 80);
  });
  async function ask() {
    const mine = (asked += 1);
    const response = await fetch(`${address}?q=${encodeURIComponent(input.value)}`);
    if (!response.ok || mine !== asked) return;
    list.replaceChildren(...(await response.json()).map(entry));
  }
  dialog.addEventListener("keydown", (event) => {
    const links = [...list.querySelectorAll("a")];
    const at = links.indexOf(document.activeElement);
    if (event.key === "ArrowDown") links[Math.min(at + 1, links.length - 1)]?.focus();
    else if (event.key === "ArrowUp") (links[at - 1] ?? input).focus();
    else if (event.key === "Enter" && document.activeElement === input) links[0]?.click();
    else return;
    event.preventDefault();
  });
}

function entry({ kind, name, url }) {
  const item = document.createElement("li");
  const link = document.createElement("a");
  const what = document.createElement("span");
  link.href = url;
  what.className = "of";
  what.textContent = kind;
  link.append(name, what);
  item.append(link);
  return item;
}
